#pragma once

#include <array>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <cstring>
#include <span>

#include "holdfast/kernel/cache/variant_cache.h"
#include "holdfast/kernel/launch.h"
#include "holdfast/kernel/targets/target.h"

namespace holdfast::kernel {

// All of a launch that decides what is recorded, except for its memory, the values of its params
// and its label. Two launches of one form differ in nothing else.
class LaunchForm {
 public:
  LaunchForm(const Kernel& kernel, const Launch& launch);
  // Cost: to compare a few words for each argument.
  bool is_of(const Kernel& kernel, const Launch& launch) const noexcept;

 private:
  boost::container::small_vector<uint64_t, 32> words_;
};

// Which bytes of its memory an argument takes.
struct ArgumentBytes {
  ByteRange range{};  // from its first element to the last one that is reached
  bool written = false;
};

// The arguments of a launch, checked as far as that needs no memory.
class CheckedArguments {
 public:
  struct Argument : ArgumentBytes {
    bool dense = true;                      // its elements are all of the range
    std::array<int64_t, kMaxRank> strides;  // in elements; as many as the shape has
  };

  // UsageError for a wrong number of arguments, shapes and strides that no memory has, and a
  // threadgroup that the device does not take.
  CheckedArguments(const Kernel& kernel, const Launch& launch, const hal::DeviceInfo& device);

  // UsageError where memory is missing or too small, or where a written argument shares bytes with
  // another.
  void check_memory(const Kernel& kernel, const Launch& launch) const;

  // Inputs, in_place, outputs.
  std::span<const Argument> all() const noexcept { return {all_.data(), all_.size()}; }

 private:
  boost::container::small_vector<Argument, 8> all_;
};

// What launches of one form record. Immutable.
class PreparedLaunch {
 public:
  // UsageError where the variant, or the target, does not take such a launch.
  PreparedLaunch(const Kernel& kernel, const Launch& launch, const CheckedArguments& checked,
                 Ref<const Variant> variant, const Target& target);

  // A launch of this form: its dispatches, all or none. UsageError as from check_memory().
  void record(runtime::Stream& stream, const Kernel& kernel, const Launch& launch) const;
  void record(runtime::Transaction& transaction, const Kernel& kernel, const Launch& launch) const;

  const Ref<const Variant>& variant() const noexcept { return variant_; }

 private:
  struct Binding {
    uint32_t argument;
    hal::Access access;
  };
  // Where a param's value goes.
  struct ParamBytes {
    uint32_t param;
    uint32_t offset;
    uint32_t size;
  };
  template <typename Recorder>
  void record_on(Recorder& recorder, const Kernel& kernel, const Launch& launch) const;
  void fill_fields(const Launch& launch, const CheckedArguments& checked,
                   std::span<const ArrayRef* const> arrays);

  Ref<const Variant> variant_;
  boost::container::small_vector<ArgumentBytes, 8> arguments_;  // inputs, in_place, outputs
  boost::container::small_vector<Binding, 8> bindings_;
  boost::container::small_vector<std::byte, 256> parameters_;  // params are zero
  boost::container::small_vector<ParamBytes, 4> params_;
  DispatchParts parts_;
};

}  // namespace holdfast::kernel
