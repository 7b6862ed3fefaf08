#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "holdfast/base/ref.h"
#include "holdfast/kernel/cache/disk_cache.h"
#include "holdfast/kernel/cache/signature_key.h"
#include "holdfast/kernel/kernel.h"
#include "holdfast/kernel/options.h"

namespace holdfast::kernel {

// A compiled kernel for one signature. Immutable. Lists hold the pipeline, not this.
class Variant final : public RefCounted {
 public:
  Variant(Ref<hal::Pipeline> pipeline_of, Interface how, Bytes size,
          std::optional<Size3> group_size = {})
      : pipeline(std::move(pipeline_of)),
        interface(std::move(how)),
        bytes(size),
        group(group_size) {}
  const Ref<hal::Pipeline> pipeline;
  const Interface interface;
  const Bytes bytes;                 // code and key
  const std::optional<Size3> group;  // its own threads of a group, where the code has them in it
};

// Compiled kernels of one device, in memory. Thread-safe.
//
// get() finds a variant by (kernel, signature) without making any text. Where that misses, the
// job's content decides: a whole ContentKey, compared byte by byte. N tasks that need the same new
// content make one compile, of which the others wait for the outcome; different contents compile in
// parallel. No lock is held while text is made, compiled, loaded, read or written. A failure is
// given to all who waited, and leaves no entry: the next call tries again.
//
// Bounded by count and by bytes, least recently used out first; a single variant larger than the
// limit lives alone. Eviction and clear() drop the cache's own reference and nothing else: whoever
// has the variant, or a list with its pipeline, keeps it.
class VariantCache {
 public:
  // Keeps the device and the target. `disk` may be null.
  VariantCache(Ref<hal::Device> device, std::shared_ptr<Target> target,
               std::shared_ptr<DiskCache> disk, CacheLimits limits = {});
  ~VariantCache();
  VariantCache(const VariantCache&) = delete;
  VariantCache& operator=(const VariantCache&) = delete;

  // Pure and slow; called at most once for each get(), with no lock held.
  using MakeJob = std::function<Result<CompileJob>()>;

  // Cost of a hit: one lock, one hash, one comparison.
  Result<Ref<const Variant>> get(KernelId kernel, const SignatureKey& signature,
                                 const MakeJob& make_job);
  // Null where it is not there; counts as a hit where it is.
  Ref<const Variant> find(KernelId kernel, const SignatureKey& signature);

  static uint64_t hash_of(KernelId kernel, const SignatureKey& signature) noexcept;
  // Whether that is still the variant of this signature; counts as a hit then. Less than find(),
  // for a caller that knows the hash and has the variant.
  bool use(KernelId kernel, const SignatureKey& signature, uint64_t hash, const Variant& variant);

  struct Wanted {
    KernelId kernel;
    SignatureKey signature;
    MakeJob make_job;
  };
  // Makes all of them, several at a time, with as few runs of the compiler as is fast. Returns a
  // Failure for each, in order; none where it is there now.
  std::vector<Failure> warm_up(std::span<const Wanted> wanted);

  // What is being compiled is not affected, and is kept when it is done.
  void clear();
  void set_limits(CacheLimits limits);
  CacheLimits limits() const;
  CacheStats stats() const;
  DiskCacheStats disk_stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace holdfast::kernel
