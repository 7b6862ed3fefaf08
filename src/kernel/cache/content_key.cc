#include "holdfast/kernel/cache/content_key.h"

#include <array>
#include <atomic>
#include <span>

#include "holdfast/base/ablation.h"

namespace holdfast::kernel {
namespace {

#ifdef HOLDFAST_ABLATIONS
std::atomic<int> collisions{0};
#endif

// Fields one after the other, each with its length before it; numbers little-endian.
class Fields {
 public:
  void add(std::string_view field) {
    if (!ablated(Ablation::key_without_lengths)) add_raw(field.size());
    bytes_ += field;
  }
  void add(std::span<const std::byte> field) {
    add(std::string_view(reinterpret_cast<const char*>(field.data()), field.size()));
  }
  void add(uint64_t number) { add_raw(number); }
  std::string take() { return std::move(bytes_); }

 private:
  void add_raw(uint64_t number) {
    for (unsigned i = 0; i < 8; ++i) bytes_ += static_cast<char>(number >> (8 * i));
  }
  std::string bytes_;
};

// Each of these names all members of its type, so that a new one does not compile until somebody
// has decided whether it is part of the key.

void add(Fields& fields, const std::string& text) { fields.add(text); }

void add(Fields& fields, const hal::Groups& groups) {
  const auto& [x, y, z] = groups;
  for (const uint32_t axis : {x, y, z}) fields.add(uint64_t{axis});
}

void add(Fields& fields, const BindingUse& binding) {
  const auto& [group, index, access] = binding;
  fields.add(static_cast<uint64_t>(group));
  fields.add(uint64_t{index});
  fields.add(static_cast<uint64_t>(access));
}

void add(Fields& fields, const ParameterField& field) {
  const auto& [kind, index, count, offset, size] = field;
  fields.add(static_cast<uint64_t>(kind));
  fields.add(uint64_t{index});
  fields.add(uint64_t{count});
  fields.add(offset.value);
  fields.add(size.value);
}

void add(Fields& fields, const Constant& constant) {
  const auto& [name, value] = constant;
  fields.add(name);
  fields.add(uint64_t{value.index()});
  fields.add(std::visit([](auto v) { return static_cast<uint64_t>(v); }, value));
}

template <typename T>
void add(Fields& fields, const std::vector<T>& all) {
  fields.add(uint64_t{all.size()});
  for (const T& one : all) add(fields, one);
}

void add(Fields& fields, const Interface& interface) {
  const auto& [bindings, parameters, bytes, has_launch_block, cooperation, lengths, cluster,
               waits_for_grids, reports] = interface;
  add(fields, bindings);
  add(fields, parameters);
  fields.add(bytes.value);
  fields.add(uint64_t{has_launch_block});
  fields.add(static_cast<uint64_t>(cooperation));
  fields.add(uint64_t{lengths});
  add(fields, cluster);
  fields.add(uint64_t{waits_for_grids});
  fields.add(uint64_t{reports});
}

void add(Fields& fields, const GeneratedKernel& code) {
  const auto& [text, preamble, entry_point, interface, math, contracts, sources] = code;
  const Digest digest = digest_of(std::as_bytes(std::span(preamble)));
  fields.add(uint64_t{preamble.size()});
  for (const uint64_t word : digest.words) fields.add(word);
  fields.add(entry_point);
  fields.add(text);
  add(fields, interface);
  fields.add(static_cast<uint64_t>(math));
  fields.add(uint64_t{contracts});
  static_cast<void>(sources);  // for messages; their names are in the text
}

void add(Fields& fields, const Native& native) {
  const auto& [kind, text, module, entry_point, bindings, reaches, constants, threadgroup,
               shared_memory, cluster, cooperative] = native;
  fields.add(static_cast<uint64_t>(kind));
  fields.add(text);
  fields.add(std::span<const std::byte>(module));
  fields.add(entry_point);
  add(fields, bindings);
  fields.add(static_cast<uint64_t>(reaches));
  add(fields, constants);
  fields.add(uint64_t{threadgroup.has_value()});
  const Size3 declared = threadgroup.value_or(Size3{});
  for (const uint32_t axis : {declared.x, declared.y, declared.z}) fields.add(uint64_t{axis});
  fields.add(shared_memory.value);
  add(fields, cluster);
  fields.add(uint64_t{cooperative});
}

std::string content_of(const CompileJob& job, std::string_view target_version) {
  const auto& [kernel, variant, code, native, constants, verbose] = job;
  const bool by_name = ablated(Ablation::kernel_key_by_name);
  if (by_name) return kernel;
  Fields fields;
  fields.add("holdfast kernel 3");
  fields.add(target_version);
  fields.add(generator_version());
  fields.add(kernel);
  add(fields, code);
  fields.add(uint64_t{native != nullptr});
  if (native) {
    add(fields, *native);
    // A native's text has no name of its file, but __FILE__ shows it.
    for (const SourceText& source : code.sources) fields.add(source.file);
  }
  add(fields, constants);
  static_cast<void>(variant);  // for messages
  static_cast<void>(verbose);
  return fields.take();
}

}  // namespace

ContentKey::ContentKey(const CompileJob& job, std::string_view target_version)
    : bytes_(content_of(job, target_version)),
      digest_(digest_of(std::as_bytes(std::span(bytes_)))) {
#ifdef HOLDFAST_ABLATIONS
  if (collisions.load(std::memory_order_relaxed) > 0) digest_ = {};
#endif
}

#ifdef HOLDFAST_ABLATIONS
ScopedDigestCollision::ScopedDigestCollision() { ++collisions; }
ScopedDigestCollision::~ScopedDigestCollision() { --collisions; }
#endif

}  // namespace holdfast::kernel
