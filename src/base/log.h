#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>

namespace holdfast::logging {

// Warnings reach the sink always. Notes belong to a topic and reach it only while that topic is
// on (HOLDFAST_LOG, comma-separated; "all" is every topic).
enum class Topic : unsigned { device, memory, waits, shutdown, kernels, compile };
inline constexpr unsigned kTopicCount = 6;
const char* to_string(Topic topic);

struct Message {
  bool warning = false;
  Topic topic = Topic::device;
  std::string_view text;
};
using Sink = std::function<void(const Message&)>;

// Replaces where messages go (default: one line each on stderr) and returns the previous sink; an
// empty sink restores the default. Thread-safe. The sink is called with no lock of Holdfast's held,
// possibly from several threads at once, and possibly once more by a call that was already under
// way.
Sink set_sink(Sink sink);

// One relaxed load: ask before building an expensive message.
bool enabled(Topic topic) noexcept;
void set_enabled(Topic topic, bool on) noexcept;

// Never throw: a sink that throws is reported on stderr.
void note_text(Topic topic, std::string_view text) noexcept;
void warn_text(Topic topic, std::string_view text) noexcept;
// What somebody asked for elsewhere: no warning, and not a matter of topics.
void tell_text(Topic topic, std::string_view text) noexcept;

template <typename... Args>
void note(Topic topic, fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(topic)) note_text(topic, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void warn(Topic topic, fmt::format_string<Args...> format, Args&&... args) {
  warn_text(topic, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace holdfast::logging
