#include "holdfast/base/log.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <utility>

#include "holdfast/base/env.h"
#include "holdfast/base/sync/process.h"

namespace holdfast::logging {
namespace {

void print_line(const Message& message) {
  const std::string line = fmt::format("holdfast {}{}: {}\n", message.warning ? "warning, " : "",
                                       to_string(message.topic), message.text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

// Lives for ever: messages may come from threads that outlive main.
struct State {
  sync::ProcessGuarded<std::shared_ptr<const Sink>> sink;
  std::array<std::atomic<bool>, kTopicCount> on{};

  State() {
    for (const std::string& word : env::list("HOLDFAST_LOG")) {
      bool known = word == "all";
      for (unsigned i = 0; i < kTopicCount; ++i) {
        const bool match = word == "all" || word == to_string(static_cast<Topic>(i));
        if (match) on.at(i).store(true, std::memory_order_relaxed);
        known = known || match;
      }
      if (!known) {
        print_line({true, Topic::device,
                    fmt::format("HOLDFAST_LOG names the topic '{}', which does not exist; topics "
                                "are device, memory, waits, shutdown, kernels, all",
                                word)});
      }
    }
  }
};

State& state() {
  static State* const forever = new State;  // NOLINT: never destroyed, see State
  return *forever;
}

void send(const Message& message) noexcept {
  try {
    std::shared_ptr<const Sink> sink = *state().sink.lock();
    if (sink && *sink) {
      (*sink)(message);
    } else {
      print_line(message);
    }
  } catch (...) {
    std::fputs("holdfast warning: the log sink threw; a message is lost\n", stderr);
  }
}

}  // namespace

const char* to_string(Topic topic) {
  switch (topic) {
    case Topic::device: return "device";
    case Topic::memory: return "memory";
    case Topic::waits: return "waits";
    case Topic::shutdown: return "shutdown";
    case Topic::kernels: return "kernels";
    case Topic::compile: return "compile";
  }
  return "unknown";
}

Sink set_sink(Sink sink) {
  auto next = std::make_shared<const Sink>(std::move(sink));
  {
    auto held = state().sink.lock();
    std::swap(*held, next);
  }
  return next ? *next : Sink();
}

bool enabled(Topic topic) noexcept {
  return state().on[static_cast<unsigned>(topic)].load(std::memory_order_relaxed);
}
void set_enabled(Topic topic, bool on) noexcept {
  state().on[static_cast<unsigned>(topic)].store(on, std::memory_order_relaxed);
}

void note_text(Topic topic, std::string_view text) noexcept {
  if (enabled(topic)) send({false, topic, text});
}
void warn_text(Topic topic, std::string_view text) noexcept { send({true, topic, text}); }
void tell_text(Topic topic, std::string_view text) noexcept { send({false, topic, text}); }

}  // namespace holdfast::logging
