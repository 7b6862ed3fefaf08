#pragma once

#include <spirv-tools/libspirv.h>
#include <spirv/unified1/spirv.hpp11>

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "holdfast/hal/pipeline.h"

// What a SPIR-V module says about itself, as far as a device or a dispatch may object to it.

namespace holdfast::hal::spirv {

using Id = uint32_t;

// Bytes are counted without overflow: what is too large to count is endless, and stays so.
inline constexpr uint64_t kEndless = std::numeric_limits<uint64_t>::max();
uint64_t sum(uint64_t a, uint64_t b);
uint64_t product(uint64_t a, uint64_t b);

// Of an id, or of a member of a structure.
struct Decorations {
  std::optional<uint32_t> spec_id, set, binding, built_in, array_stride, offset, matrix_stride;
  bool row_major = false;
  bool buffer_block = false;

  // Those that are not listed above are ignored.
  void add(spv::Decoration decoration, uint32_t argument);
  void add(const Decorations& group);
};

struct Type {
  enum class Kind : uint8_t { other, scalar, vector, matrix, array, structure, pointer };
  Kind kind = Kind::other;
  uint32_t depth = 1;  // of types within types
  uint32_t count = 0;  // components of a vector
  uint32_t width = 0;  // bits of a scalar
  Id inner = 0;        // of a pointer or array: to or of what
  spv::StorageClass storage{};
  // From the first byte to the last that is used; kEndless also where it cannot be told. How far
  // apart the vectors of a matrix lie is known only to the structure around it: where one is the
  // innermost element, it begins at byte matrix_at.
  uint64_t size = 0;
  uint64_t matrix_at = 0;
  uint32_t columns = 0;  // of the innermost matrix, none: 0
  uint32_t rows = 0;
  uint64_t component = 0;  // bytes
};

// A scalar constant, whatever its type.
struct Value {
  uint64_t bits = 0;  // those beyond `width` are 0
  uint32_t width = 32;
  int64_t as_signed() const;
};

struct EntryPoint {
  spv::ExecutionModel model{};
  Id function = 0;
  std::string name;
  std::vector<Id> interface;
};

struct Variable {
  Id id = 0;
  Id type = 0;  // a pointer
  spv::StorageClass storage{};
};

// Collects, instruction by instruction, what the checks ask. SPIR-V declares what it uses first, so
// that sizes and values are known when they are asked for and nothing recurses. Believes nothing:
// it may see a module before the validator does, and of a module that is not valid its answers mean
// nothing, but all may be asked for.
class Reader {
 public:
  // The specialization constants that the module is to run with: borrowed while the reader lives.
  explicit Reader(const std::vector<SpirvModule::Constant>& constants) : constants_(constants) {}

  // Reads one module; not called twice. On failure `diagnostic` says why, and is the caller's to
  // destroy; what lies before the fault has been read.
  spv_result_t read(spv_const_context context, std::span<const uint32_t> words,
                    spv_diagnostic* diagnostic);

  // Those declared, without those that they imply.
  const std::set<uint32_t>& capabilities() const { return capabilities_; }
  const std::vector<EntryPoint>& entry_points() const { return entry_points_; }
  // Outside of functions.
  const std::vector<Variable>& variables() const { return variables_; }
  // From SpecId to bytes; a bool has 4.
  const std::unordered_map<uint32_t, uint32_t>& spec_constants() const { return spec_constants_; }
  // Of the type that nests deepest.
  uint32_t type_depth() const { return type_depth_; }

  // Of an unknown id: one of Kind::other, endless.
  const Type& type(Id id) const;
  // Of an id without any: none.
  const Decorations& decorations(Id id) const;
  // With the specialization constants applied; nullopt: no constant, or one that cannot be told.
  std::optional<Value> value(Id id) const;
  // With the specialization constants applied; nullopt along an axis: it cannot be told.
  std::array<std::optional<uint64_t>, 3> group_size(const EntryPoint& entry) const;
  // What Vulkan calls static use: named by the entry point, or in a function that it may reach.
  std::unordered_set<Id> used_by(const EntryPoint& entry) const;

 private:
  using Instruction = spv_parsed_instruction_t;

  static spv_result_t visit(void* reader, const Instruction* instruction);
  void read(const Instruction& i);
  void read_in_function(const Instruction& i, spv::Op op);
  void read_entry_point(const Instruction& i);
  void read_type(const Instruction& i, spv::Op op);
  void read_constant(const Instruction& i, spv::Op op);
  Type array_type(const Instruction& i, spv::Op op) const;
  Type struct_type(const Instruction& i) const;
  std::optional<uint64_t> operation(const Instruction& i) const;

  const std::vector<SpirvModule::Constant>& constants_;
  std::set<uint32_t> capabilities_;
  std::vector<EntryPoint> entry_points_;
  std::vector<Variable> variables_;
  std::unordered_map<uint32_t, uint32_t> spec_constants_;
  uint32_t type_depth_ = 0;
  std::unordered_map<Id, Type> types_;
  std::unordered_map<Id, Value> values_;
  std::unordered_map<Id, std::vector<Id>> composites_;
  std::unordered_map<Id, Decorations> decorations_;
  std::unordered_map<uint64_t, Decorations> members_;            // by structure and index
  std::unordered_map<Id, std::array<uint32_t, 3>> local_sizes_;  // by function
  std::unordered_map<Id, std::unordered_set<Id>> mentions_;      // by function
  Id group_size_object_ = 0;
  Id function_ = 0;  // that is being read, none: 0
};

}  // namespace holdfast::hal::spirv
