#include "holdfast/base/sync/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
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
  uint64_t most_helpers;
  std::atomic<uint64_t> next{0};
  uint64_t inside = 0;  // helpers at work on it; guarded by State::mutex

  // Whether there was a chunk to do.
  bool work_once() {
    const uint64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
    if (begin >= count) return false;
    body(begin, std::min(count, begin + grain));
    return true;
  }
  bool has_more() const { return next.load(std::memory_order_relaxed) < count; }
};

}  // namespace

struct WorkerPool::State {
  Mutex mutex;  // guards jobs, stopping, running and Job::inside
  Condition job_arrived;
  Condition helper_left;
  std::vector<Job*> jobs HOLDFAST_GUARDED_BY(mutex);
  std::atomic<size_t> job_count{0};  // of jobs; read without the mutex
  bool stopping HOLDFAST_GUARDED_BY(mutex) = false;
  unsigned running HOLDFAST_GUARDED_BY(mutex) = 0;  // calls of run()
  std::vector<Thread> threads;

  void add(Job& job) HOLDFAST_REQUIRES(mutex) {
    jobs.push_back(&job);
    job_count.store(jobs.size(), std::memory_order_relaxed);
  }
  void remove(Job& job) HOLDFAST_REQUIRES(mutex) {
    std::erase(jobs, &job);
    job_count.store(jobs.size(), std::memory_order_relaxed);
  }
  // The job with fewest helpers of those that want another; null: there is none.
  Job* neediest() const HOLDFAST_REQUIRES(mutex) {
    Job* neediest = nullptr;
    for (Job* const job : jobs) {
      if (job->inside >= job->most_helpers || !job->has_more()) continue;
      if (neediest == nullptr || job->inside < neediest->inside) neediest = job;
    }
    return neediest;
  }

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
      Job* job = nullptr;
      job_arrived.wait(lock, [&] {
        mutex.assert_held();
        job = neediest();
        return stopping || job != nullptr;
      });
      if (stopping) return;
      ++job->inside;
      const bool wants_more = neediest() != nullptr;
      lock.unlock();
      if (wants_more) job_arrived.notify_one();
      while (job->work_once() && job_count.load(std::memory_order_relaxed) == 1) {
      }
      lock.lock();
      if (--job->inside == 0) helper_left.notify_all();
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
                     const std::function<void(uint64_t, uint64_t)>& body, uint64_t most_helpers) {
  grain = std::max<uint64_t>(grain, 1);
  const uint64_t chunks = ceil_div(count, grain);
  const uint64_t wanted =
      std::min<uint64_t>({chunks > 0 ? chunks - 1 : 0, helpers(), most_helpers});
  Job job{body, count, grain, wanted};
  {
    Lock lock(state_->mutex);
    ++state_->running;
    if (wanted > 0) state_->add(job);
  }
  if (wanted > 0) state_->job_arrived.notify_one();
  while (job.work_once()) {
  }
  Lock lock(state_->mutex);
  if (wanted > 0) state_->remove(job);
  state_->helper_left.wait(lock, [&] { return job.inside == 0; });
  if (--state_->running == 0) state_->helper_left.notify_all();
}

}  // namespace holdfast::sync
