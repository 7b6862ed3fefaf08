#include "holdfast/base/sync/thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <array>
#include <memory>
#include <optional>

#include "holdfast/base/error.h"
#include "holdfast/base/ref.h"
#include "holdfast/base/sync/condition.h"
#include "holdfast/base/sync/patience_test.h"

namespace holdfast::sync {
namespace {

// Shared with threads that may outlive the test's stack.
class Signal {
 public:
  void give() {
    const Lock lock(mutex_);
    given_ = true;
    changed_.notify_all();
  }
  bool arrives() {
    Lock lock(mutex_);
    return changed_.wait_until(lock, patience(), [&] { return given_; });
  }

 private:
  Mutex mutex_;  // guards given_
  Condition changed_;
  bool given_ = false;
};

// A moment in which a caller that does not wait gets ahead.
void dawdle() {
  spin_for(2000, [] { return false; });
}

TEST(Thread, it_is_joined_when_its_object_goes) {
  bool done = false;
  {
    const Thread thread("worker", [&] {
      dawdle();
      done = true;
    });
    EXPECT_TRUE(thread.joinable());
  }
  EXPECT_TRUE(done);
}

TEST(Thread, join_waits_and_may_be_repeated) {
  bool done = false;
  Thread thread("worker", [&] {
    dawdle();
    done = true;
  });
  thread.join();
  EXPECT_TRUE(done);
  EXPECT_FALSE(thread.joinable());
  thread.join();
}

TEST(Thread, a_default_thread_is_none) {
  Thread none;
  EXPECT_FALSE(none.joinable());
  EXPECT_FALSE(none.is_current());
  none.join();
  none.detach();
}

TEST(Thread, a_move_takes_the_thread_along) {
  bool done = false;
  Thread to;
  {
    Thread from("worker", [&] {
      dawdle();
      done = true;
    });
    to = std::move(from);
    EXPECT_FALSE(from.joinable());  // NOLINT(bugprone-use-after-move): empty after a move
  }
  EXPECT_TRUE(to.joinable());
  to.join();
  EXPECT_TRUE(done);
}

TEST(Thread, assigning_over_a_thread_joins_it_first) {
  bool first_done = false;
  Thread thread("first", [&] {
    dawdle();
    first_done = true;
  });
  thread = Thread();
  EXPECT_TRUE(first_done);
}

TEST(Thread, a_thread_knows_whether_it_is_the_current_one) {
  Thread thread;
  bool inside = false;
  Signal assigned;
  thread = Thread("worker", [&] { inside = assigned.arrives() && thread.is_current(); });
  EXPECT_FALSE(thread.is_current());
  assigned.give();
  thread.join();
  EXPECT_TRUE(inside);
}

TEST(Thread, a_thread_that_drops_its_own_object_is_detached) {
  struct Owner : RefCounted {
    Thread thread;
  };
  const auto ready = std::make_shared<Signal>();
  const auto survived = std::make_shared<Signal>();
  auto owner = make_ref<Owner>();
  owner->thread = Thread("self", [ready, survived, raw = owner.get()] {
    if (ready->arrives()) raw->release();
    survived->give();
  });
  (void)owner.detach();  // its count is the thread's now
  ready->give();
  EXPECT_TRUE(survived->arrives()) << "it waited for itself";
}

TEST(Thread, a_thread_that_joins_itself_is_detached) {
  struct Shared {
    Thread thread;
    Signal assigned;
    Signal survived;
    bool joinable = true;
  };
  const auto shared = std::make_shared<Shared>();
  shared->thread = Thread("self", [shared] {
    if (!shared->assigned.arrives()) return;
    shared->thread.join();
    shared->joinable = shared->thread.joinable();
    shared->survived.give();
  });
  shared->assigned.give();
  ASSERT_TRUE(shared->survived.arrives());
  EXPECT_FALSE(shared->joinable);
}

TEST(Thread, a_detached_thread_runs_on_alone) {
  const auto go = std::make_shared<Signal>();
  const auto done = std::make_shared<Signal>();
  {
    Thread thread("alone", [go, done] {
      if (go->arrives()) done->give();
    });
    thread.detach();
    EXPECT_FALSE(thread.joinable());
  }
  go->give();
  EXPECT_TRUE(done->arrives());
}

TEST(Thread, it_bears_its_name) {
  std::array<char, 16> name{};
  Thread("hf-worker", [&] { pthread_getname_np(pthread_self(), name.data(), name.size()); });
  EXPECT_STREQ(name.data(), "hf-worker");
}

TEST(Thread, signals_are_left_to_the_threads_of_the_application) {
  constexpr std::array kSignals{SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM};
  sigset_t before;
  sigset_t inside;
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  Thread("quiet", [&] { pthread_sigmask(SIG_SETMASK, nullptr, &inside); });
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (const int signal : kSignals) {
    EXPECT_EQ(sigismember(&inside, signal), 1) << signal;
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal)) << signal;
  }
}

// No machine has an address space for such a stack.
class HugeStacks {
 public:
  HugeStacks() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, size_t{1} << 60);
    installed_ = pthread_setattr_default_np(&huge) == 0;
    pthread_attr_destroy(&huge);
  }
  ~HugeStacks() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  HugeStacks(const HugeStacks&) = delete;
  HugeStacks& operator=(const HugeStacks&) = delete;
  bool installed() const { return installed_; }

 private:
  pthread_attr_t before_{};
  bool installed_ = false;
};

TEST(Thread, where_the_system_gives_no_thread_the_error_names_it_and_signals_stay_as_they_were) {
  sigset_t before;
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  {
    const HugeStacks no_room;
    ASSERT_TRUE(no_room.installed());
    try {
      const Thread thread("unlucky", [] {});
      ADD_FAILURE() << "the thread was started";
    } catch (const EnvironmentError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("'unlucky'"));
    }
  }
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
  EXPECT_NO_THROW(Thread("lucky", [] {}));
}

TEST(SpinFor, it_ends_as_soon_as_the_predicate_holds) {
  int asked = 0;
  EXPECT_TRUE(spin_for(100, [&] { return ++asked == 3; }));
  EXPECT_EQ(asked, 3);
}

TEST(SpinFor, it_gives_up_with_the_last_answer) {
  int asked = 0;
  EXPECT_FALSE(spin_for(10, [&] { return ++asked > 11; }));
  EXPECT_EQ(asked, 11);
  asked = 0;
  EXPECT_TRUE(spin_for(10, [&] { return ++asked == 11; })) << "the last question counts";
  EXPECT_TRUE(spin_for(0, [] { return true; }));
}

TEST(HardwareThreads, there_is_at_least_one) { EXPECT_GE(hardware_threads(), 1U); }

TEST(Spin, ends_soon_where_each_look_takes_as_long_as_the_turn_of_another_thread) {
  unsigned looks = 0;
  const bool done = spin_for(1000000, [&] {
    ++looks;
    for (const TimePoint start = now(); now() - start < kLongestSpin;) {
    }
    return false;
  });
  EXPECT_FALSE(done);
  EXPECT_LE(looks, 17U);
}

TEST(Spin, looks_as_often_as_it_may_and_once_more) {
  unsigned looks = 0;
  EXPECT_FALSE(spin_for(3, [&] { return ++looks > 10; }));
  EXPECT_EQ(looks, 4U);
  EXPECT_TRUE(spin_for(100, [&] { return ++looks == 6; }));
  EXPECT_EQ(looks, 6U);
}

}  // namespace
}  // namespace holdfast::sync
