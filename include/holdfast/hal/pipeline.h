#pragma once

#include <cstdint>
#include <string>

#include "holdfast/base/error.h"
#include "holdfast/hal/module.h"
#include "holdfast/hal/resource.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

struct PipelineDesc {
  std::string name{};
  Module module{};
  uint32_t bindings = 0;    // how many every dispatch gives
  Bytes parameter_bytes{};  // how many every dispatch gives
};

// A failure if the kernel exceeds kMaxBindings or kMaxParameterBytes.
Failure check_limits(const PipelineDesc& desc);

// Which ranges of a Buffer a kernel can bind.
struct BindingLimits {
  Bytes alignment{1};          // of a range's offset in its Buffer; a power of two
  Bytes length{~uint64_t{0}};  // of one range at most
};

class Pipeline : public Resource {
 public:
  const BindingLimits& binding_limits() const noexcept { return limits_; }
  uint32_t bindings() const noexcept { return bindings_; }
  Bytes parameter_bytes() const noexcept { return parameter_bytes_; }
  std::string describe() const override;

 protected:
  Pipeline(DeviceId device, std::string name, uint32_t bindings, Bytes parameter_bytes,
           BindingLimits limits = {})
      : Resource(device, std::move(name)),
        bindings_(bindings),
        parameter_bytes_(parameter_bytes),
        limits_(limits) {}

 private:
  uint32_t bindings_;
  Bytes parameter_bytes_;
  BindingLimits limits_;
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
