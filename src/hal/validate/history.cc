#include "holdfast/hal/validate/history.h"

#include <fmt/format.h>

#include <algorithm>

#include "holdfast/base/shown.h"
#include "holdfast/hal/allocation.h"

namespace holdfast::hal {
std::string ListName::describe() const { return fmt::format("list '{}' (id {})", name, id.value); }

std::string ListRecord::describe() const {
  if (!program) return title->describe();
  return fmt::format("{}, a replay of program '{}' (id {}),", title->describe(), *program_name,
                     program.value);
}

std::string ListRecord::point() const { return fmt::format("{} @ {}", *queue_name, value); }

std::string AccessRecord::describe() const {
  const CommandRecord& r = record();
  std::string what = r.kind == CommandKind::dispatch ? fmt::format("kernel '{}'", *r.kernel)
                                                     : fmt::format("a {}", to_string(r.kind));
  if (r.label_bytes > 0) {
    what += fmt::format(" labelled '{}'",
                        std::string_view(list->labels).substr(r.label_at, r.label_bytes));
  }
  return fmt::format("{} (command {} of {} on {})", what, r.index, list->describe(), list->point());
}

std::string AccessRecord::advice(const AccessRecord* later) const {
  if (later != nullptr && later->list == list) return "put a barrier between them";
  if (later == nullptr) return fmt::format("let the host wait for {} first", list->point());
  return fmt::format("let {} wait for {}", later->list->title->describe(), list->point());
}

bool Uses::note(const AccessRecord& use, AccessRecord& before) {
  for (AccessRecord& newest : newest_) {
    if (newest.list == use.list) return false;
    if (newest.list->queue != use.list->queue) continue;
    before = std::exchange(newest, use);
    return true;
  }
  newest_.push_back(use);
  return true;
}

void Uses::restore(const AccessRecord& use, AccessRecord before) {
  const auto at = std::find_if(newest_.begin(), newest_.end(),
                               [&](const AccessRecord& r) { return r.list == use.list; });
  if (at == newest_.end()) return;
  if (before) {
    *at = std::move(before);
  } else {
    newest_.erase(at);
  }
}

const AccessRecord* Uses::in_flight(const QueueClock& host) const noexcept {
  for (const AccessRecord& use : newest_) {
    if (!use.is_known_to(host)) return &use;
  }
  return nullptr;
}

const std::shared_ptr<Thing>& life_of(const std::shared_ptr<Thing>& allocation) {
  return allocation->shares ? allocation->shares : allocation;
}

std::string Thing::describe() const {
  switch (kind) {
    case Kind::allocation: return Allocation::describe(*name, id, range.length);
    case Kind::pipeline: return fmt::format("kernel '{}' (id {})", *name, id.value);
    case Kind::program: return fmt::format("program '{}' (id {})", *name, id.value);
  }
  return {};
}

std::string Thing::origin() const {
  if (site.line() == 0) return {};
  return fmt::format(", created at {}:{}", shown_path(site.file_name()), site.line());
}

std::string Thing::end() const {
  if (!is_dead) return {};
  return died_after == nullptr
             ? "it lost its last user before anything was submitted"
             : fmt::format("it lost its last user after {} was submitted", died_after->describe());
}

}  // namespace holdfast::hal
