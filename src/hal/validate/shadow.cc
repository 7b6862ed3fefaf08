#include "holdfast/hal/validate/shadow.h"

#include <fmt/format.h>

#include <algorithm>

namespace holdfast::hal {

std::string Shadow::describe() const {
  return fmt::format("buffer '{}' (id {}, {})", name, id.value, to_string(size));
}

void Shadow::split(uint64_t at) {
  auto next = intervals.upper_bound(at);
  if (next == intervals.begin()) return;
  auto here = std::prev(next);
  if (here->first == at || here->second.end <= at) return;
  intervals.emplace_hint(next, at, here->second);
  here->second.end = at;
}

std::pair<Shadow::Intervals::iterator, Shadow::Intervals::iterator> Shadow::cover(uint64_t begin,
                                                                                  uint64_t end) {
  auto first = intervals.lower_bound(begin);
  if (first != intervals.end() && first->first == begin && first->second.end == end) {
    return {first, std::next(first)};
  }
  split(begin);
  split(end);
  first = intervals.lower_bound(begin);
  auto at = first;
  for (uint64_t from = begin; from < end;) {
    if (at == intervals.end() || at->first > from) {
      const uint64_t to = at == intervals.end() ? end : std::min(end, at->first);
      auto gap = intervals.emplace_hint(at, from, Interval{});
      gap->second.end = to;
      if (from == begin) first = gap;
      from = to;
    } else {
      from = at->second.end;
      ++at;
    }
  }
  return {first, at};
}

void Shadow::sweep_if_due(const QueueClock& host) {
  if (intervals.size() < sweep_at_) return;
  sweep(host);
  sweep_at_ = 64 + 2 * intervals.size();
}

void Shadow::sweep(const QueueClock& host) {
  auto before = intervals.end();
  for (auto at = intervals.begin(); at != intervals.end();) {
    Interval& i = at->second;
    if (i.write && i.write.is_known_to(host)) i.write = {};
    i.reads.erase(std::remove_if(i.reads.begin(), i.reads.end(),
                                 [&](const AccessRecord& read) { return read.is_known_to(host); }),
                  i.reads.end());
    const bool is_quiet = !i.write && i.reads.empty();
    if (is_quiet) i.user = i.life;
    if (is_quiet && (!i.life || i.life->views == 0)) {
      at = intervals.erase(at);
      continue;
    }
    if (is_quiet && before != intervals.end()) {
      Interval& b = before->second;
      if (b.end == at->first && !b.write && b.reads.empty() && b.life == i.life &&
          b.is_written == i.is_written) {
        b.end = i.end;
        at = intervals.erase(at);
        continue;
      }
    }
    before = at++;
  }
}

void Journal::undo() {
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (auto* piece = std::get_if<Piece>(&*entry)) {
      auto [at, end] = piece->shadow->cover(piece->begin, piece->before.end);
      at->second = std::move(piece->before);
      piece->shadow->intervals.erase(std::next(at), end);
    } else if (auto* read = std::get_if<Read>(&*entry)) {
      auto [at, end] = read->shadow->cover(read->begin, read->end);
      for (; at != end; ++at) {
        auto& reads = at->second.reads;
        const auto ours = std::find_if(reads.begin(), reads.end(),
                                       [&](const AccessRecord& r) { return r.list == list_; });
        if (ours == reads.end()) continue;
        if (read->before) {
          *ours = read->before;
        } else {
          reads.erase(ours);
        }
      }
    } else {
      auto& use = std::get<Use>(*entry);
      Uses& uses = use.thing ? use.thing->uses : use.shadow->uses;
      uses.restore(use.use, std::move(use.before));
    }
  }
  entries_.clear();
  list_.reset();
}

}  // namespace holdfast::hal
