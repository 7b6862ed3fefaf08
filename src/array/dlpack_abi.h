#pragma once

#include <cstdint>

// The structs of DLPack 1.0 (dmlc/dlpack), which both sides of an exchange share.
namespace holdfast::array::dl {

struct Device {
  int32_t type;
  int32_t id;
};
inline constexpr int32_t kCpu = 1;
inline constexpr int32_t kCuda = 2;
inline constexpr int32_t kCudaHost = 3;  // host memory, too

// CUDA's default streams, as CUstreams.
inline void* const kLegacyStream = reinterpret_cast<void*>(1);
inline void* const kPerThreadStream = reinterpret_cast<void*>(2);

struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
inline constexpr uint8_t kInt = 0;
inline constexpr uint8_t kUint = 1;
inline constexpr uint8_t kFloat = 2;
inline constexpr uint8_t kBfloat = 4;
inline constexpr uint8_t kBool = 6;

struct Tensor {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: row-contiguous
  uint64_t byte_offset;
};

struct ManagedTensor {
  Tensor tensor;
  void* context;
  void (*deleter)(ManagedTensor*);
};

struct Version {
  uint32_t major;
  uint32_t minor;
};
inline constexpr Version kVersion{1, 0};
inline constexpr uint64_t kReadOnly = 1;
inline constexpr uint64_t kCopied = 2;

struct ManagedTensorVersioned {
  Version version;
  void* context;
  void (*deleter)(ManagedTensorVersioned*);
  uint64_t flags;
  Tensor tensor;
};

}  // namespace holdfast::array::dl
