#include "holdfast/base/sync/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <vector>

#include "holdfast/base/rounding.h"
#include "holdfast/base/sync/condition.h"
#include "holdfast/base/sync/thread.h"

namespace holdfast::sync {
namespace {

// One call of run(); lives on its caller's stack.
struct Job {
  const std::function<void(uint64_t, uint64_t)>& body;
  uint64_t count;
  uint64_t grain;
  std::atomic<uint64_t> next{0};
  unsigned inside = 0;  // helpers at work on it; guarded by State::mutex

  void work() {
    for (;;) {
      const uint64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= count) return;
      body(begin, std::min(count, begin + grain));
    }
  }
  bool has_more() const { return next.load(std::memory_order_relaxed) < count; }
};

}  // namespace

struct WorkerPool::State {
  Mutex mutex;  // guards jobs, stopping, running and Job::inside
  Condition job_arrived;
  Condition helper_left;
  std::deque<Job*> jobs HOLDFAST_GUARDED_BY(mutex);
  bool stopping HOLDFAST_GUARDED_BY(mutex) = false;
  unsigned running HOLDFAST_GUARDED_BY(mutex) = 0;  // calls of run()
  std::vector<Thread> threads;

  void stop() {
    Lock lock(mutex);
    helper_left.wait(lock, [&] {
      mutex.assert_held();
      return running == 0;
    });
    stopping = true;
    lock.unlock();
    job_arrived.notify_all();
    threads.clear();
  }

  void help() {
    Lock lock(mutex);
    for (;;) {
      job_arrived.wait(lock, [&] {
        mutex.assert_held();
        return stopping || !jobs.empty();
      });
      if (stopping) return;
      Job& job = *jobs.front();
      if (!job.has_more()) {
        jobs.pop_front();
        continue;
      }
      ++job.inside;
      lock.unlock();
      job.work();
      lock.lock();
      if (--job.inside == 0) helper_left.notify_all();
    }
  }
};

WorkerPool::WorkerPool(std::string name, unsigned helpers) : state_(std::make_unique<State>()) {
  try {
    for (unsigned i = 0; i < helpers; ++i) {
      state_->threads.emplace_back(fmt::format("{}{}", name, i),
                                   [state = state_.get()] { state->help(); });
    }
  } catch (...) {
    state_->stop();
    throw;
  }
}

WorkerPool::~WorkerPool() { state_->stop(); }

unsigned WorkerPool::helpers() const noexcept {
  return static_cast<unsigned>(state_->threads.size());
}

void WorkerPool::run(uint64_t count, uint64_t grain,
                     const std::function<void(uint64_t, uint64_t)>& body) {
  grain = std::max<uint64_t>(grain, 1);
  Job job{body, count, grain};
  const uint64_t chunks = ceil_div(count, grain);
  const uint64_t wanted = std::min<uint64_t>(chunks > 0 ? chunks - 1 : 0, helpers());
  {
    Lock lock(state_->mutex);
    ++state_->running;
    if (wanted > 0) state_->jobs.push_back(&job);
  }
  for (uint64_t i = 0; i < wanted; ++i) state_->job_arrived.notify_one();
  job.work();
  Lock lock(state_->mutex);
  std::erase(state_->jobs, &job);
  state_->helper_left.wait(lock, [&] { return job.inside == 0; });
  if (--state_->running == 0) state_->helper_left.notify_all();
}

}  // namespace holdfast::sync
