#pragma once

#include <cstdint>

namespace holdfast::sync {

// Numbers that the calling thread alone gives out, one after the other. It takes them from a
// counter that all threads share kBatch at a time: then they seldom meet there. One Tag for each
// such counter.
template <typename Tag, uint64_t kBatch>
class NumbersOfThread {
 public:
  // `take(count)` advances the counter and returns its new value.
  template <typename Take>
  static uint64_t next(const Take& take) {
    static constinit thread_local Own own{};
    if (own.last == own.end) {
      own.end = take(kBatch);
      own.last = own.end - kBatch;
    }
    return ++own.last;
  }

 private:
  struct Own {
    uint64_t last;
    uint64_t end;
  };
};

}  // namespace holdfast::sync
