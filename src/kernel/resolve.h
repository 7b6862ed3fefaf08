#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "holdfast/kernel/cache/variant_cache.h"
#include "holdfast/kernel/launch.h"
#include "holdfast/kernel/prepared_launch.h"

namespace holdfast::kernel {

// Finds what launches record, and compiles the variants that are missing, many at a time. It knows
// what it found last, and which compiles failed: these it does not try again. Belongs to one task.
class Resolver {
 public:
  Resolver() = default;
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // What the launch records, whose arguments need no memory yet; null where its variant is not
  // compiled, and then it is noted. Valid until the next call. UsageError for arguments that no
  // launch of the kernel can have, and in a forked process. Cost, for a form that was found lately:
  // to compare its words.
  const PreparedLaunch* find(KernelRuntime& kernels, const Kernel& kernel, const Launch& launch);

  // How much was noted since forget() or resolve().
  size_t missing() const noexcept { return noted_.size(); }
  void forget() noexcept;
  // Whether noting more would be of no use: it would be evicted before its turn, or take long.
  bool has_enough() const noexcept { return promising_ >= most_; }

  // As long as it lives, what resolve() made stays, whatever the cache evicts. They nest.
  class Scope {
   public:
    explicit Scope(Resolver& resolver) noexcept
        : resolver_(resolver), before_(resolver.held_.size()) {}
    ~Scope() {
      if (resolver_.held_.size() != before_) resolver_.held_.resize(before_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Resolver& resolver_;
    size_t before_;
  };
  // Compiles what was noted. The first `needed` are there afterwards; else the Failure is that of
  // the first which is not. The others are compiled ahead: their failures are told when they are
  // needed.
  Failure resolve(size_t needed);

 private:
  // How many kernels are compiled ahead, in parallel.
  static constexpr size_t kMostAhead = 256;

  struct Entry {
    KernelRuntime* kernels = nullptr;
    KernelId kernel{};
    SignatureKey signature{};
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  struct Found {
    KernelRuntime* kernels = nullptr;
    LaunchForm form;
    PreparedLaunch launch;
  };
  struct Held {
    Entry entry;
    Ref<const Variant> variant;
  };
  struct Noted {
    Entry entry;
    VariantCache::MakeJob make_job;
  };
  struct Failed {
    Entry entry;
    Failure failure;
  };
  Failure known_failure(const Entry& entry) const;
  void compile_ahead();

  std::vector<std::unique_ptr<Found>> found_;  // newest first: a graph often repeats a few forms
  std::vector<Held> held_;
  std::vector<Noted> noted_;
  size_t promising_ = 0;  // of noted_: not known to fail
  size_t most_ = kMostAhead;
  std::vector<Failed> failed_;
};

}  // namespace holdfast::kernel
