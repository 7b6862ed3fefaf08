#include "holdfast/hal/deleter.h"

#include <exception>
#include <string>
#include <utility>

#include "holdfast/base/log.h"

namespace holdfast::hal {
namespace {

void report(std::string_view name, std::string_view why) noexcept {
  try {
    logging::warn(logging::Topic::memory,
                  "the deleter of external memory{} threw, so that its memory may be leaked: {}; "
                  "catch inside the deleter what it can throw",
                  name.empty() ? std::string() : fmt::format(" '{}'", name), why);
  } catch (...) {  // no memory for the words
    logging::warn_text(logging::Topic::memory, "a deleter of external memory threw");
  }
}

}  // namespace

void run_deleter(std::function<void()>& deleter, std::string_view name) noexcept {
  const std::function<void()> once = std::exchange(deleter, nullptr);
  if (!once) return;
  try {
    once();
  } catch (const std::exception& error) {
    report(name, error.what());
  } catch (...) {
    report(name, "an exception that is no std::exception");
  }
}

}  // namespace holdfast::hal
