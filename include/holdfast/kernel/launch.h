#pragma once

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "holdfast/base/sync/mutex.h"
#include "holdfast/kernel/kernel.h"
#include "holdfast/kernel/options.h"
#include "holdfast/runtime/stream.h"

namespace holdfast::kernel {
class PreparedLaunch;
class Resolver;
class SignatureKey;
class Variant;
class VariantCache;
struct CompileJob;
}  // namespace holdfast::kernel

#pragma GCC visibility push(default)

namespace holdfast::kernel {

// Memory with a type and a shape, as an argument of a kernel. Everything is borrowed for the call.
struct ArrayRef {
  ArrayRef(const Ref<hal::Allocation>& memory_of, Dtype type, std::span<const int64_t> shape_of,
           std::span<const int64_t> strides_of = {}, Bytes first = {})
      : memory(memory_of.get()), dtype(type), shape(shape_of), strides(strides_of), offset(first) {}

  hal::Allocation* memory;
  Dtype dtype;
  std::span<const int64_t> shape;
  std::span<const int64_t> strides;  // in elements; empty: row-contiguous
  Bytes offset;                      // of the first element
};

using Launch = LaunchOf<ArrayRef>;

// UsageError for a threadgroup that is empty or larger than the device allows; the message gives
// the limit.
void check_threadgroup(const Kernel& kernel, std::string_view label, const Size3& threadgroup,
                       const hal::DeviceInfo& device);

// The kernels of one Context: variants in memory and on disk. Thread-safe; keeps the Context's
// device alive, not the Context. In a forked child every call raises UsageError.
class KernelRuntime {
 public:
  explicit KernelRuntime(const Ref<runtime::Context>& context);
  KernelRuntime(const Ref<runtime::Context>& context, Options options);
  ~KernelRuntime();
  KernelRuntime(const KernelRuntime&) = delete;
  KernelRuntime& operator=(const KernelRuntime&) = delete;

  // Compiles what is missing, then records the dispatches that run the kernel (usually one), all or
  // none. An output with gaps between its elements keeps the bytes in the gaps, and so counts as
  // read too. UsageError, before anything is compiled or recorded, for a wrong number of arguments,
  // a shape that does not fit in its memory, a threadgroup that is empty or larger than the device
  // allows, an output that shares bytes with another argument, and everything that check() finds.
  // UsageError also for a threadgroup other than the native's own. Compile errors: see Target.
  // Nothing is recorded after an error. A constant that nothing uses changes nothing, and is noted
  // once (topic kernels).
  void launch(runtime::Stream& stream, const Kernel& kernel, const Launch& launch);
  void launch(runtime::Transaction& transaction, const Kernel& kernel, const Launch& launch);

  // Compiles ahead, in parallel. Returns one Failure for each signature, in order: none if its
  // variant is ready.
  std::vector<Failure> warm_up(const Kernel& kernel, std::span<const CallSignature> signatures);
  // The text that the call would be compiled from, with its preamble.
  std::string generated_text(const Kernel& kernel, const CallSignature& signature) const;

  CacheStats stats() const;
  // Drops every compiled kernel that nothing recorded needs.
  void clear();
  void set_limits(CacheLimits limits);

  // For other parts of Holdfast. Only compiles, and returns the variant that the launch would use;
  // its arguments need no memory.
  Ref<const Variant> prepare(const Kernel& kernel, const Launch& launch);
  VariantCache& cache() noexcept { return *cache_; }

 private:
  friend class Resolver;
  // A launch as it was prepared, with what finds its variant in the cache.
  struct Known;
  // Compiles what is missing.
  std::shared_ptr<const Known> prepared(const Kernel& kernel, const Launch& launch,
                                        bool has_memory);
  // A recent launch of the same form, whose variant is still in the cache; null where there is
  // none.
  std::shared_ptr<const Known> find_known(const Kernel& kernel, const Launch& launch);
  void remember(const std::shared_ptr<const Known>& known);
  void forget_known();
  // The key in cache() of a launch with the right number of arguments.
  SignatureKey key(const Kernel& kernel, const Launch& launch) const;
  // What cache().get() takes. Keeps nothing of the launch.
  std::function<Result<CompileJob>()> job_maker(const Kernel& kernel, const Launch& launch);
  Result<CompileJob> make_job(const Kernel& kernel, const CallSignature& signature) const;
  void check_usable() const;
  void note_unused(const Kernel& kernel, const std::string& constant) const;

  Ref<hal::Device> device_;
  uint32_t fork_generation_;
  std::shared_ptr<Target> target_;
  bool bounds_;
  mutable sync::Guarded<std::set<std::string>> noted_;  // "KERNEL CONSTANT"
  std::unique_ptr<VariantCache> cache_;
  sync::Guarded<std::vector<std::shared_ptr<const Known>>> known_;  // newest first
};

}  // namespace holdfast::kernel

#pragma GCC visibility pop
