#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::hal {

enum class FaultKind : unsigned {
  // Made by the adversary, at the n-th opportunity:
  alloc,    // a buffer cannot be created
  submit,   // a submission is refused
  command,  // a command fails while executing
  lost,     // the device is lost, at the n-th thing that happens on it
  compile,  // a kernel does not compile
  // Made by a simulation, before the n-th step of the schedule, on a task of its own:
  trim,   // free memory goes back to the device
  clear,  // what is finished is retired and everything cached is dropped
  limit,  // the memory limit goes down to what is in use, and up again
  drop,   // whatever the test has offered is dropped
};
inline constexpr unsigned kFaultKinds = 9;
const char* to_string(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::alloc;
  uint64_t at = 1;  // counted from one
  friend bool operator==(const Fault&, const Fault&) = default;
};

// "alloc@3+submit@7": what goes wrong, and when.
class FaultPlan {
 public:
  FaultPlan() = default;
  explicit FaultPlan(std::vector<Fault> faults) : faults_(std::move(faults)) {}
  // UsageError says what cannot be read. Empty text: no faults.
  static FaultPlan parse(std::string_view text);

  bool hits(FaultKind kind, uint64_t opportunity) const noexcept;
  const std::vector<Fault>& faults() const noexcept { return faults_; }
  bool empty() const noexcept { return faults_.empty(); }

 private:
  std::vector<Fault> faults_;
};
std::string to_string(const FaultPlan& plan);

}  // namespace holdfast::hal
