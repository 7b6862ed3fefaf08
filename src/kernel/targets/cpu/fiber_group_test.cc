#include "holdfast/kernel/targets/cpu/fiber_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>

#include "holdfast/base/error.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/kernel/targets/cpu/kernel_host.h"
#include "holdfast/simulation/simulation.h"

namespace holdfast::kernel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A group as a kernel sees it: through its host alone.
class GroupKernel {
 public:
  using Body = std::function<void(GroupKernel& kernel, unsigned thread)>;

  void run(unsigned threads, const Body& body) {
    KernelHost host("k", pool_);
    host_ = &host;
    body_ = &body;
    host.run_group(
        &host, threads,
        [](void* self, unsigned thread) {
          GroupKernel& kernel = *static_cast<GroupKernel*>(self);
          (*kernel.body_)(kernel, thread);
        },
        this);
  }
  // What run() throws.
  std::string failure_of(unsigned threads, const Body& body) {
    try {
      run(threads, body);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "no failure";
  }

  void barrier(unsigned line = 1) { host_->barrier(host_, line); }
  void simd_barrier(unsigned line = 1) { host_->simd_barrier(host_, line); }
  // As generated kernels do it.
  template <typename T>
  T shuffle(T value, unsigned from_lane, unsigned line = 1) {
    std::memcpy(host_->slots[host_->item % 32], &value, sizeof(T));
    simd_barrier(line);
    std::memcpy(&value, host_->met[from_lane], sizeof(T));
    return value;
  }
  hf_host& host() { return *host_; }

 private:
  FiberGroupPool pool_;
  hf_host* host_ = nullptr;
  const Body* body_ = nullptr;
};

TEST(FiberGroup, every_item_runs_once_in_order) {
  GroupKernel kernel;
  for (const unsigned threads : {1U, 2U, 31U, 32U, 33U, 1024U, 5U}) {
    std::vector<unsigned> ran;
    kernel.run(threads, [&](GroupKernel& k, unsigned thread) {
      EXPECT_EQ(k.host().item, thread);
      EXPECT_EQ(k.host().items, threads);
      ran.push_back(thread);
    });
    std::vector<unsigned> all(threads);
    std::iota(all.begin(), all.end(), 0U);
    EXPECT_EQ(ran, all);
  }
}

TEST(FiberGroup, a_group_of_no_item_does_nothing) {
  GroupKernel().run(0, [](GroupKernel&, unsigned) { ADD_FAILURE(); });
}

TEST(FiberGroup, nobody_passes_a_barrier_before_all_have_reached_it) {
  GroupKernel kernel;
  for (const unsigned threads : {1U, 2U, 32U, 40U, 64U, 1000U}) {
    unsigned arrived = 0;
    kernel.run(threads, [&](GroupKernel& k, unsigned thread) {
      for (unsigned round = 1; round <= 5; ++round) {
        ++arrived;
        k.barrier();
        EXPECT_GE(arrived, round * threads);
        EXPECT_EQ(k.host().item, thread);
        k.barrier();
      }
    });
    EXPECT_EQ(arrived, 5 * threads);
  }
}

TEST(FiberGroup, the_order_of_everything_is_fixed) {
  GroupKernel kernel;
  std::string order;
  kernel.run(3, [&](GroupKernel& k, unsigned thread) {
    const auto say = [&](char what) { order += std::string{what, char('0' + thread), ' '}; };
    say('a');
    k.barrier();
    say('b');
    k.simd_barrier();
    say('c');
  });
  EXPECT_EQ(order, "a0 a1 a2 b0 b1 b2 c0 c1 c2 ");
}

TEST(FiberGroup, simdgroups_meet_by_themselves) {
  GroupKernel kernel;
  std::vector<unsigned> finished;
  kernel.run(70, [&](GroupKernel& k, unsigned thread) {
    // Each simdgroup a different number of times, as uniform flow allows.
    for (unsigned i = 0; i <= thread / 32; ++i) k.simd_barrier();
    finished.push_back(thread);
    k.barrier();
  });
  EXPECT_EQ(finished.size(), 70U);
  EXPECT_TRUE(std::ranges::is_sorted(finished));
}

TEST(FiberGroup, simdgroups_go_from_one_operation_to_the_next_together) {
  GroupKernel kernel;
  std::string order;
  kernel.run(96, [&](GroupKernel& k, unsigned thread) {
    for (char round = 'a'; round < 'd'; ++round) {
      if (thread % 32 == 0) order += std::string{round, char('0' + thread / 32), ' '};
      k.simd_barrier();
    }
  });
  EXPECT_EQ(order, "a0 a1 a2 b0 b1 b2 c0 c1 c2 ");
}

TEST(FiberGroup, lanes_that_return_or_wait_elsewhere_do_not_count) {
  GroupKernel kernel;
  std::vector<uint32_t> active(64);
  kernel.run(64, [&](GroupKernel& k, unsigned thread) {
    if (thread == 40 || thread == 41) return;
    k.simd_barrier(12);
    active[thread] = k.host().active;
  });
  EXPECT_EQ(active[3], ~0U);
  EXPECT_EQ(active[63], ~0x300U);
  unsigned passed = 0;
  kernel.run(8, [&](GroupKernel& k, unsigned thread) {
    if (thread != 5) {
      k.simd_barrier(4);
      EXPECT_EQ(k.host().active, 0xdfU);
    }
    k.barrier(3);
    ++passed;
  });
  EXPECT_EQ(passed, 8U);
}

TEST(FiberGroup, lanes_at_an_earlier_line_meet_first_and_catch_up) {
  GroupKernel kernel;
  std::vector<unsigned> taken(32);
  kernel.run(32, [&](GroupKernel& k, unsigned thread) {
    if (thread < 5) {
      EXPECT_EQ(k.shuffle(thread, (thread + 1) % 5, 3), (thread + 1) % 5);
      EXPECT_EQ(k.host().active, 0x1fU);
    } else if (thread < 9) {
      EXPECT_EQ(k.shuffle(thread, 8, 5), 8U);
      EXPECT_EQ(k.host().active, 0x1e0U);
    }
    taken[thread] = k.shuffle(thread * 2, 31 - thread, 7);
    EXPECT_EQ(k.host().active, ~0U);
  });
  for (unsigned i = 0; i < 32; ++i) EXPECT_EQ(taken[i], 2 * (31 - i));
}

TEST(FiberGroup, lanes_in_different_rounds_of_a_loop_are_an_error_and_no_wrong_sum) {
  GroupKernel kernel;
  EXPECT_THAT(kernel.failure_of(32,
                                [](GroupKernel& k, unsigned thread) {
                                  for (int round = 0; round < 3; ++round) {
                                    k.simd_barrier(5);
                                    if (thread < 16) k.simd_barrier(7);
                                  }
                                }),
              HasSubstr("meet at line 5 in different rounds of a loop"));
  // Behind an inner loop that lanes leave one by one, they meet again in every round.
  EXPECT_EQ(kernel.failure_of(32,
                              [](GroupKernel& k, unsigned thread) {
                                for (int round = 0; round < 3; ++round) {
                                  for (unsigned i = 0; i <= thread % 4; ++i) k.simd_barrier(5);
                                  k.simd_barrier(7);
                                  EXPECT_EQ(k.host().active, ~0U);
                                }
                              }),
            "no failure");
  // Branches of their own, in a loop.
  EXPECT_EQ(kernel.failure_of(32,
                              [](GroupKernel& k, unsigned thread) {
                                for (int round = 0; round < 3; ++round) {
                                  k.simd_barrier(thread < 16 ? 5 : 7);
                                  EXPECT_EQ(k.host().active, thread < 16 ? 0xffffU : 0xffff0000U);
                                }
                                k.simd_barrier(9);
                                EXPECT_EQ(k.host().active, ~0U);
                              }),
            "no failure");
}

TEST(FiberGroup, lanes_in_one_round_of_a_loop_may_take_its_branches_in_turn) {
  GroupKernel kernel;
  const auto halves_change_branches = [](GroupKernel& k, unsigned thread) {
    for (unsigned round = 0; round < 4; ++round) {
      k.simd_barrier((thread < 16) == (round % 2 == 0) ? 3 : 5);
      k.barrier(7);
    }
  };
  EXPECT_EQ(kernel.failure_of(64, halves_change_branches), "no failure");
  const auto one_returns_in_each = [](GroupKernel& k, unsigned thread) {
    for (unsigned round = 0; round < 8; ++round) {
      if (thread == round) {
        k.simd_barrier(3);
        EXPECT_EQ(k.host().active, 1U << round);
        return;
      }
      k.simd_barrier(5);
      EXPECT_EQ(k.host().active, ~0U << (round + 1));
    }
  };
  EXPECT_EQ(kernel.failure_of(32, one_returns_in_each), "no failure");
}

TEST(FiberGroup, lanes_that_left_a_loop_wait_behind_it) {
  GroupKernel kernel;
  std::vector<unsigned> together(32);
  kernel.run(32, [&](GroupKernel& k, unsigned thread) {
    for (unsigned round = 0; round < thread; ++round) {
      k.simd_barrier(2);
      together[thread] += static_cast<unsigned>(std::popcount(k.host().active));
    }
    k.simd_barrier(4);
    EXPECT_EQ(k.host().active, ~0U);
  });
  // In round r, the lanes behind r.
  for (unsigned i = 0; i < 32; ++i) {
    unsigned expected = 0;
    for (unsigned round = 0; round < i; ++round) expected += 31 - round;
    EXPECT_EQ(together[i], expected) << i;
  }
}

TEST(FiberGroup, lanes_exchange_values_through_slots) {
  GroupKernel kernel;
  kernel.run(100, [&](GroupKernel& k, unsigned thread) {
    const unsigned lanes = thread >= 96 ? 4 : 32;
    unsigned value = thread;
    for (unsigned i = 0; i < 7; ++i) {
      value = k.shuffle(value, (thread % 32 + 1) % lanes);
      if (i == 3) k.barrier();
    }
    EXPECT_EQ(value, thread / 32 * 32 + (thread % 32 + 7) % lanes);
  });
}

TEST(FiberGroup, exchanges_of_a_smaller_group_before_leave_nothing_behind) {
  GroupKernel kernel;
  for (const unsigned before : {1U, 5U, 31U, 40U, 70U}) {
    for (const unsigned exchanges : {1U, 2U, 3U}) {
      kernel.run(before, [&](GroupKernel& k, unsigned thread) {
        for (unsigned i = 0; i < exchanges; ++i) EXPECT_EQ(k.shuffle(thread, 0), thread / 32 * 32);
      });
      // Lanes that had taken part and lanes that had not write to and read from one place.
      for (const unsigned threads : {64U, 33U, 96U}) {
        kernel.run(threads, [&](GroupKernel& k, unsigned thread) {
          const unsigned first = thread / 32 * 32;
          const unsigned last = std::min(first + 32, threads) - 1;
          EXPECT_EQ(k.shuffle(1000 * before + thread, last - first), 1000 * before + last);
          EXPECT_EQ(k.host().items, threads);
        });
      }
    }
  }
}

TEST(FiberGroup, after_every_kind_of_failure_groups_of_other_sizes_run_as_ever) {
  GroupKernel kernel;
  const std::vector<std::pair<const char*, GroupKernel::Body>> failures{
      {"returned before the barrier at line 7",
       [](GroupKernel& k, unsigned thread) {
         if (thread != 3) k.barrier(7);
       }},
      {"met at different barriers: lines 13 and 14",
       [](GroupKernel& k, unsigned thread) { k.barrier(thread == 2 ? 14 : 13); }},
      {"thrown in the second simdgroup", [](GroupKernel& k, unsigned thread) {
         (void)k.shuffle(thread, 0);
         if (thread == 33) throw std::runtime_error("thrown in the second simdgroup");
         k.barrier(15);
       }}};
  for (const auto& [words, body] : failures) {
    for (const unsigned threads : {1U, 20U, 40U, 64U, 100U}) {
      EXPECT_THAT(kernel.failure_of(50, body), HasSubstr(words));
      unsigned passed = 0;
      EXPECT_EQ(kernel.failure_of(threads,
                                  [&](GroupKernel& k, unsigned thread) {
                                    const unsigned first = thread / 32 * 32;
                                    EXPECT_EQ(k.shuffle(thread, 0), first);
                                    k.barrier(1);
                                    EXPECT_EQ(k.shuffle(thread + 5, 0), first + 5);
                                    k.barrier(2);
                                    ++passed;
                                  }),
                "no failure")
          << threads << " after: " << words;
      EXPECT_EQ(passed, threads);
    }
  }
}

TEST(FiberGroup, a_reduction_through_shared_memory_is_right) {
  GroupKernel kernel;
  std::vector<uint64_t> partial(256);
  uint64_t sum = 0;
  kernel.run(256, [&](GroupKernel& k, unsigned thread) {
    partial[thread] = thread * thread;
    k.barrier();
    for (unsigned half = 128; half > 0; half /= 2) {
      if (thread < half) partial[thread] += partial[thread + half];
      k.barrier();
    }
    if (thread == 0) sum = partial[0];
  });
  EXPECT_EQ(sum, 255U * 256U * 511U / 6U);
}

TEST(FiberGroup, items_that_return_before_a_barrier_are_counted_and_the_line_is_named) {
  GroupKernel kernel;
  EXPECT_EQ(kernel.failure_of(64,
                              [](GroupKernel& k, unsigned thread) {
                                if (thread % 20 == 3) return;
                                k.barrier(7);
                              }),
            "kernel 'k': 4 of 64 threads returned before the barrier at line 7; all threads of a "
            "threadgroup must reach it");
  EXPECT_THAT(kernel.failure_of(64,
                                [](GroupKernel& k, unsigned thread) {
                                  k.barrier(5);
                                  if (thread == 63) k.barrier(9);
                                }),
              HasSubstr("63 of 64 threads returned before the barrier at line 9;"));
  // Whole simdgroups too.
  EXPECT_THAT(kernel.failure_of(64,
                                [](GroupKernel& k, unsigned thread) {
                                  if (thread < 32) return;
                                  k.barrier(5);
                                }),
              HasSubstr("32 of 64 threads returned before the barrier at line 5;"));
  // And the group is good for the next.
  unsigned count = 0;
  kernel.run(64, [&](GroupKernel& k, unsigned) {
    k.barrier();
    ++count;
  });
  EXPECT_EQ(count, 64U);
}

// Counts what lives on the stacks of items.
class Counted {
 public:
  explicit Counted(int& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  int& count_;
};

TEST(FiberGroup, an_exception_of_an_item_reaches_the_caller_and_the_others_are_unwound) {
  GroupKernel kernel;
  int alive = 0;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const auto body = [&](GroupKernel& k, unsigned thread) {
      const Counted counted(alive);
      k.barrier();
      if (thread == 50) throw std::out_of_range("item 50");
      k.barrier();
    };
    EXPECT_THROW(kernel.run(64, body), std::out_of_range);
    EXPECT_EQ(alive, 0);
  }
  unsigned count = 0;
  kernel.run(64, [&](GroupKernel& k, unsigned) {
    k.barrier();
    ++count;
  });
  EXPECT_EQ(count, 64U);
}

TEST(FiberGroup, an_item_that_catches_everything_is_still_given_up) {
  GroupKernel kernel;
  int stubborn = 0;
  const std::string why = kernel.failure_of(4, [&](GroupKernel& k, unsigned thread) {
    if (thread == 3) return;
    for (int i = 0; i < 3; ++i) {
      try {
        k.barrier(2);
      } catch (...) {
        ++stubborn;
      }
    }
  });
  EXPECT_THAT(why, HasSubstr("1 of 4 threads returned before the barrier at line 2"));
  EXPECT_EQ(stubborn, 9);
}

TEST(FiberGroup, an_item_that_throws_while_it_is_given_up_changes_nothing) {
  GroupKernel kernel;
  const auto body = [](GroupKernel& k, unsigned thread) {
    if (thread == 3) return;
    try {
      k.barrier(2);
    } catch (...) {
      throw std::runtime_error("again");
    }
  };
  EXPECT_THAT(kernel.failure_of(4, body), HasSubstr("1 of 4 threads returned"));
  EXPECT_EQ(kernel.failure_of(4, [](GroupKernel& k, unsigned) { k.barrier(); }), "no failure");
}

TEST(FiberGroup, what_a_kernel_raises_names_it_its_line_and_the_buffer_or_the_expression) {
  GroupKernel kernel;
  EXPECT_EQ(kernel.failure_of(4,
                              [](GroupKernel& k, unsigned thread) {
                                k.barrier();
                                if (thread == 2) {
                                  k.host().out_of_bounds(&k.host(), "a.metal", 7, "x", -3, 10);
                                }
                                k.barrier();
                              }),
            "kernel 'k', a.metal:7: index -3 is outside 'x', which has 10 elements");
  EXPECT_EQ(kernel.failure_of(1, [](GroupKernel& k,
                                    unsigned) { k.host().assertion(&k.host(), "k", 8, "i < n"); }),
            "kernel 'k', k:8: the assertion 'i < n' does not hold");
}

TEST(FiberGroup, threads_that_meet_at_different_lines_are_an_error_that_names_both) {
  GroupKernel kernel;
  EXPECT_EQ(
      kernel.failure_of(8, [](GroupKernel& k, unsigned thread) { k.barrier(thread == 7 ? 9 : 4); }),
      "kernel 'k': threads of one threadgroup met at different barriers: lines 4 and 9");
  EXPECT_EQ(kernel.failure_of(
                64, [](GroupKernel& k, unsigned thread) { k.barrier(thread < 32 ? 4 : 9); }),
            "kernel 'k': threads of one threadgroup met at different barriers: lines 4 and 9");
  EXPECT_EQ(kernel.failure_of(64,
                              [](GroupKernel& k, unsigned thread) {
                                for (unsigned line = 1; line < 5; ++line) {
                                  k.barrier(line);
                                  k.simd_barrier(10 * line + thread / 32);
                                  k.simd_barrier(20 * line);
                                }
                              }),
            "no failure")
      << "simdgroups by themselves, and one place after another";
}

TEST(FiberGroup, misuse_is_refused_with_a_sentence) {
  FiberGroupPool pool;
  KernelHost host("k", pool);
  EXPECT_THROW(host.barrier(&host, 1), ExecutionError);
  EXPECT_THROW(host.simd_barrier(&host, 1), ExecutionError);
  GroupKernel kernel;
  EXPECT_THAT(kernel.failure_of(1025, [](GroupKernel&, unsigned) {}),
              HasSubstr("a threadgroup of 1025 threads; 1024 are the most"));
  EXPECT_THAT(kernel.failure_of(2,
                                [](GroupKernel& k, unsigned) {
                                  k.host().run_group(
                                      &k.host(), 1, [](void*, unsigned) {}, nullptr);
                                }),
              HasSubstr("run_group inside run_group"));
}

TEST(FiberGroup, items_have_room_for_large_frames) {
  GroupKernel kernel;
  uint64_t sum = 0;
  kernel.run(8, [&](GroupKernel& k, unsigned thread) {
    std::array<unsigned, 32768> large;  // 128 KiB
    for (unsigned i = 0; i < large.size(); ++i) large[i] = thread + i;
    k.barrier();
    sum += large[1000];
  });
  EXPECT_EQ(sum, 8028U);
}

TEST(FiberGroup, a_group_serves_one_thread_after_another) {
  GroupKernel kernel;
  for (int i = 0; i < 4; ++i) {
    unsigned count = 0;
    sync::Thread("user", [&] {
      kernel.run(40, [&](GroupKernel& k, unsigned) {
        k.barrier();
        ++count;
      });
      EXPECT_NE(kernel.failure_of(40,
                                  [&](GroupKernel& k, unsigned thread) {
                                    if (thread != 3) k.barrier();
                                  }),
                "no failure");
    }).join();
    EXPECT_EQ(count, 40U);
  }
}

TEST(FiberGroup, several_threads_take_groups_from_one_pool) {
  FiberGroupPool pool;
  std::vector<unsigned> counts(4);
  {
    std::vector<sync::Thread> threads;
    for (unsigned t = 0; t < 4; ++t) {
      threads.emplace_back("user", [&pool, &count = counts[t]] {
        for (int i = 0; i < 50; ++i) {
          KernelHost host("k", pool);
          struct Data {
            hf_host& host;
            unsigned& count;
          } data{host, count};
          host.run_group(
              &host, 33,
              [](void* p, unsigned) {
                Data& d = *static_cast<Data*>(p);
                d.host.barrier(&d.host, 1);
                ++d.count;
              },
              &data);
        }
      });
    }
  }
  EXPECT_THAT(counts, ElementsAre(1650U, 1650U, 1650U, 1650U));
}

TEST(FiberGroup, it_runs_inside_a_task_of_the_simulation) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    std::vector<unsigned> counts(3);
    simulation::SeededDriver driver(seed);
    const auto outcome = simulation::simulate(driver, [&] {
      std::vector<sync::Thread> tasks;
      for (unsigned& count : counts) {
        tasks.emplace_back("task", [&count] {
          GroupKernel kernel;
          for (int i = 0; i < 3; ++i) {
            kernel.run(40, [&](GroupKernel& k, unsigned) {
              k.barrier();
              ++count;
            });
            EXPECT_THROW(kernel.run(40,
                                    [&](GroupKernel& k, unsigned thread) {
                                      k.barrier();
                                      if (thread == 7) throw std::runtime_error("seven");
                                      k.barrier();
                                    }),
                         std::runtime_error);
            sync::relax(0);  // lets others run
          }
        });
      }
    });
    EXPECT_EQ(outcome.ending, simulation::Ending::finished) << outcome.report;
    EXPECT_THAT(counts, ElementsAre(120U, 120U, 120U));
  }
}

}  // namespace
}  // namespace holdfast::kernel
