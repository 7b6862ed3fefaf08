#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <list>
#include <map>

#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/kernel/cache/stub_target_test.h"

// Random calls, against a cache that a child could write.

namespace holdfast::kernel {
namespace {

struct Step {
  enum class Kind { get, find, clear, limits } kind = Kind::get;
  uint32_t kernel = 0;
  uint32_t signature = 0;
  uint32_t limit = 1;
};
std::ostream& operator<<(std::ostream& out, const Step& step) {
  constexpr std::array kinds{"get", "find", "clear", "limits"};
  return out << kinds.at(static_cast<size_t>(step.kind)) << "(kernel " << step.kernel
             << ", signature " << step.signature << ", limit " << step.limit << ")";
}

rc::Gen<Step> any_step() {
  using Kind = Step::Kind;
  return rc::gen::build<Step>(
      rc::gen::set(&Step::kind,
                   rc::gen::weightedElement<Kind>(
                       {{12, Kind::get}, {4, Kind::find}, {1, Kind::clear}, {1, Kind::limits}})),
      rc::gen::set(&Step::kernel, rc::gen::inRange(0U, 3U)),
      rc::gen::set(&Step::signature, rc::gen::inRange(0U, 8U)),
      rc::gen::set(&Step::limit, rc::gen::inRange(0U, 6U)));
}

// Kernel 2 has the texts of kernel 0: other objects, the same content. Signature 7 does not
// compile.
std::string text_of(const Step& step) {
  if (step.signature == 7) return "error";
  return std::to_string(step.kernel % 2 * 100 + step.signature);
}

struct Model {
  using Name = std::pair<uint32_t, uint32_t>;  // kernel, signature
  std::list<Name> recent;                      // spellings, most recent first
  std::map<Name, std::string> texts;
  std::map<std::string, uint64_t> variants;  // the number of the compile that made it
  uint64_t compiles = 0;
  size_t limit = 4096;

  size_t count() const { return variants.size(); }
  void trim() {
    while (!recent.empty() && (count() > limit || recent.size() / 4 > limit)) {
      const std::string text = texts.at(recent.back());
      texts.erase(recent.back());
      recent.pop_back();
      const bool used =
          std::ranges::any_of(texts, [&](const auto& entry) { return entry.second == text; });
      if (!used) variants.erase(text);
    }
  }
  bool find(const Name& name) {
    const auto at = std::ranges::find(recent, name);
    if (at == recent.end()) return false;
    recent.splice(recent.begin(), recent, at);
    return true;
  }
  // The compile whose outcome the call gets; zero: an error.
  uint64_t get(const Name& name, const std::string& text) {
    if (find(name)) return variants.at(text);
    if (text == "error") return ++compiles, 0;
    if (!variants.contains(text)) variants[text] = ++compiles;
    const uint64_t made = variants[text];
    recent.push_front(name);
    texts[name] = text;
    trim();
    return made;
  }
};

RC_GTEST_PROP(VariantCacheModel, random_calls_get_what_a_simple_model_gets, ()) {
  const auto steps = *rc::gen::container<std::vector<Step>>(any_step());
  const auto device = hal::CpuDevice::open({.queues = 1, .helpers = 0});
  const auto target = std::make_shared<StubTarget>();
  VariantCache cache(device, target, nullptr);
  const std::array kernels{KernelId::next(), KernelId::next(), KernelId::next()};
  Model model;
  std::map<uint64_t, Ref<const Variant>> made;  // by the number of the compile
  for (const Step& step : steps) {
    const Model::Name name{step.kernel, step.signature};
    const KernelId kernel = kernels.at(step.kernel);
    switch (step.kind) {
      case Step::Kind::get: {
        const auto got = cache.get(kernel, signature_of(step.signature), making(text_of(step)));
        const uint64_t expected = model.get(name, text_of(step));
        RC_ASSERT(got.ok() == (expected != 0));
        if (got) {
          const auto known = made.emplace(expected, got.value()).first;
          RC_ASSERT(known->second == got.value());
        }
        break;
      }
      case Step::Kind::find:
        RC_ASSERT(static_cast<bool>(cache.find(kernel, signature_of(step.signature))) ==
                  model.find(name));
        break;
      case Step::Kind::clear:
        cache.clear();
        model.recent.clear();
        model.texts.clear();
        model.variants.clear();
        break;
      case Step::Kind::limits:
        cache.set_limits({.variants = step.limit});
        model.limit = step.limit;
        model.trim();
        break;
    }
    RC_ASSERT(target->compiles == model.compiles);
    RC_ASSERT(cache.stats().variants == model.count());
    RC_ASSERT(static_cast<bool>(cache.stats().bytes) == (model.count() > 0));
  }
  made.clear();
  cache.clear();
  RC_ASSERT(cache.stats().bytes == 0_B);
}

}  // namespace
}  // namespace holdfast::kernel
