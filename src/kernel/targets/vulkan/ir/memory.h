#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "holdfast/kernel/targets/vulkan/ir/ir.h"

namespace holdfast::kernel::ir {

enum class Storage : uint8_t {
  device,      // reached by 64-bit addresses
  parameters,  // what the launch gives by value
  threadgroup,
  own,  // a thread's variables
  constant,
  mixed,  // which of several, a pointer itself says
};

// Variables that one pointer may point to: they lie in one array.
// Pointers into it are 32-bit numbers that count `unit` bytes from its begin.
//
// Where one pointer may point to memory of several kinds, its region is `mixed`: pointers are then
// 64-bit numbers, whose upper four bits say which member it is, and whose others are an address, or
// count the bytes from the member's begin.
struct Region {
  Storage storage = Storage::own;
  struct Object {
    Value* address = nullptr;  // an alloca, or a global's
    const Type* type = nullptr;
    const Value* initial = nullptr;
    uint64_t offset = 0;
  };
  std::vector<Object> objects{};
  uint64_t size = 0;              // bytes
  uint64_t width = 8;             // of an element: no access is smaller
  uint64_t unit = 0;              // divides every step of a pointer, and is a power of two
  const Type* element = nullptr;  // where all accesses have it; null: several
  bool is_accessed = false;
  // What no pointer into it is. Zero where pointers into it are kept in memory, which may have been
  // filled with zeros: nothing lies at its begin then.
  uint32_t null = ~uint32_t{0};
  bool has_types = false;                // several
  std::vector<const Region*> members{};  // of a mixed one; null: device memory
  uint32_t tag = 0;                      // in pointers of mixed regions; device memory has 0
};
inline constexpr uint32_t kMostTags = 15;
inline constexpr uint32_t kTagShift = 60;

// Where pointers of a function may point.
class Memory {
 public:
  // The last argument points to the parameters, the others to device memory. Throws Refused where a
  // pointer may point to memory of two kinds.
  static std::unique_ptr<Memory> of(Module& module, Function& function);

  // What the value, a pointer or an integer made of one, points into. Null: device memory.
  const Region* region_of(const Value* pointer) const;
  // What pointers point into that are stored where this one points. Null: device memory.
  const Region* content_of(const Value* pointer) const;
  const std::deque<Region>& regions() const noexcept { return regions_; }

 private:
  friend class MemoryFinder;
  std::deque<Region> regions_;
  std::unordered_map<const Value*, const Region*> pointers_;
  std::unordered_map<const Value*, const Region*> contents_;
};

// How far gep moves its pointer: a number of bytes, and indices that are multiplied.
struct Moves {
  int64_t bytes = 0;
  struct Scaled {
    Value* index = nullptr;
    uint64_t by = 0;
  };
  std::vector<Scaled> scaled{};
};
Moves moves_of(const Value& gep);
// The bytes that llvm.memcpy and its kind move at once: how both ends are aligned.
uint64_t chunk_of(const Value& call);
bool copies_memory(const Value& value);  // llvm.memcpy, llvm.memmove
bool fills_memory(const Value& value);   // llvm.memset

}  // namespace holdfast::kernel::ir
