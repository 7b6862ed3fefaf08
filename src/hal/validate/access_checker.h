#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "holdfast/hal/queue.h"
#include "holdfast/hal/validate/model_state.h"
#include "holdfast/hal/validate/sentences.h"

namespace holdfast::hal {

// A fingerprint of parameter bytes.
uint64_t parameter_hash(const Command& command);

// Checks one list, or one host access, against what the model knows, and enters it. Made for one
// call; the model's lock is held all the while.
class AccessChecker {
 public:
  // Violations and notes are added to `found`.
  AccessChecker(ModelState& state, std::vector<Violation>& found) : state_(state), found_(found) {}

  // Whether nothing condemns the list. Else the violation is the last one found, and the journal of
  // the queue says what to take back.
  bool enter_list(uint32_t q, const Work& work);
  // The range counts in the Buffer.
  void enter_host_access(const std::shared_ptr<Thing>& allocation, uint64_t begin, uint64_t end,
                         Access access, std::string_view name);

 private:
  // A binding, resolved.
  struct Bound {
    std::shared_ptr<Thing> allocation;
    uint64_t begin;
    uint64_t end;
    Access access;

    Touch touch() const { return {*allocation, begin, end, access}; }
    Touch part(uint64_t from, uint64_t to) const { return {*allocation, from, to, access}; }
  };
  using At = Shadow::Intervals::iterator;

  // All that answer bool: whether nothing condemns the list.
  bool condemn(Violation violation);
  bool find_program(const CommandList& list);
  bool find(const AccessRecord& who, ResourceId id, const char* kind,
            std::shared_ptr<Thing>& thing);  // null: none of ours
  bool enter_command(const Command& command, uint32_t index, uint32_t wave);
  bool enter_pipeline(const Command& command, const AccessRecord& who);
#ifdef HOLDFAST_ABLATIONS
  bool check_shared_parameters(const Command& command, const AccessRecord& who, Thing& pipeline);
#endif
  bool enter_bindings(const Command& command, const AccessRecord& who);
  bool enter_access(const AccessRecord& who, const Bound& b);
  bool judge_initialization(const Observer& who, const Bound& b, uint64_t written);

  void begin_life(const Command& command);
  void use(const AccessRecord& who, const std::shared_ptr<Thing>& thing);
  // Whether the observer's access of these bytes is out of order. Adds what this life wrote.
  static std::optional<Violation> check(const Observer& who, const Bound& b, At first, At last,
                                        uint64_t& written);
  static std::optional<Violation> check(const Observer& who, const Bound& b, uint64_t begin,
                                        const Interval& i);
  std::optional<Violation> check_host_accesses(const Observer& who, const Bound& b) const;
  void enter_write(const AccessRecord& who, const Bound& b, At first, At last);
  void enter_read(const AccessRecord& who, const Bound& b, At first, At last);

  ModelState& state_;
  std::vector<Violation>& found_;
  std::shared_ptr<ListRecord> record_;
  Journal* journal_ = nullptr;
  const CommandList* replay_ = nullptr;  // the list, where it is one
  std::shared_ptr<Thing> program_;       // what it replays, if that is known
  std::vector<Bound> bound_;
};

}  // namespace holdfast::hal
