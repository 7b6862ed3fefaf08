#include "holdfast/hal/vulkan/spirv_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace holdfast::hal::spirv {
namespace {

uint32_t word(const spv_parsed_instruction_t& i, size_t index) {
  return index < i.num_words ? i.words[index] : 0;
}

std::vector<uint32_t> words_from(const spv_parsed_instruction_t& i, size_t index) {
  return {i.words + std::min<size_t>(index, i.num_words), i.words + i.num_words};
}

uint64_t member(Id structure, uint32_t index) { return uint64_t{structure} << 32 | index; }

// The integer operations that array lengths and group sizes are made of.
std::optional<uint64_t> folded(spv::Op op, Value a, Value b) {
  const int64_t sa = a.as_signed();
  const int64_t sb = b.as_signed();
  const bool divides = b.bits != 0;
  const bool divides_signed = divides && !(sb == -1 && sa == std::numeric_limits<int64_t>::min());
  switch (op) {
    case spv::Op::OpIAdd: return a.bits + b.bits;
    case spv::Op::OpISub: return a.bits - b.bits;
    case spv::Op::OpIMul: return a.bits * b.bits;
    case spv::Op::OpUDiv: return divides ? std::optional(a.bits / b.bits) : std::nullopt;
    case spv::Op::OpUMod: return divides ? std::optional(a.bits % b.bits) : std::nullopt;
    case spv::Op::OpSDiv:
      return divides_signed ? std::optional(static_cast<uint64_t>(sa / sb)) : std::nullopt;
    case spv::Op::OpSRem:
      return divides_signed ? std::optional(static_cast<uint64_t>(sa % sb)) : std::nullopt;
    case spv::Op::OpShiftLeftLogical:
      return b.bits < a.width ? std::optional(a.bits << b.bits) : std::nullopt;
    case spv::Op::OpShiftRightLogical:
      return b.bits < a.width ? std::optional(a.bits >> b.bits) : std::nullopt;
    case spv::Op::OpShiftRightArithmetic:
      return b.bits < a.width ? std::optional(static_cast<uint64_t>(sa >> b.bits)) : std::nullopt;
    case spv::Op::OpBitwiseOr:
    case spv::Op::OpLogicalOr: return a.bits | b.bits;
    case spv::Op::OpBitwiseAnd:
    case spv::Op::OpLogicalAnd: return a.bits & b.bits;
    case spv::Op::OpBitwiseXor: return a.bits ^ b.bits;
    case spv::Op::OpIEqual:
    case spv::Op::OpLogicalEqual: return a.bits == b.bits;
    case spv::Op::OpINotEqual:
    case spv::Op::OpLogicalNotEqual: return a.bits != b.bits;
    case spv::Op::OpULessThan: return a.bits < b.bits;
    case spv::Op::OpULessThanEqual: return a.bits <= b.bits;
    case spv::Op::OpUGreaterThan: return a.bits > b.bits;
    case spv::Op::OpUGreaterThanEqual: return a.bits >= b.bits;
    case spv::Op::OpSLessThan: return sa < sb;
    case spv::Op::OpSLessThanEqual: return sa <= sb;
    case spv::Op::OpSGreaterThan: return sa > sb;
    case spv::Op::OpSGreaterThanEqual: return sa >= sb;
    default: return std::nullopt;
  }
}

}  // namespace

uint64_t sum(uint64_t a, uint64_t b) { return a > kEndless - b ? kEndless : a + b; }
uint64_t product(uint64_t a, uint64_t b) {
  uint64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? kEndless : result;
}

void Decorations::add(spv::Decoration decoration, uint32_t argument) {
  switch (decoration) {
    case spv::Decoration::SpecId: spec_id = argument; break;
    case spv::Decoration::DescriptorSet: set = argument; break;
    case spv::Decoration::Binding: binding = argument; break;
    case spv::Decoration::BuiltIn: built_in = argument; break;
    case spv::Decoration::ArrayStride: array_stride = argument; break;
    case spv::Decoration::Offset: offset = argument; break;
    case spv::Decoration::MatrixStride: matrix_stride = argument; break;
    case spv::Decoration::RowMajor: row_major = true; break;
    case spv::Decoration::BufferBlock: buffer_block = true; break;
    default: break;
  }
}

void Decorations::add(const Decorations& group) {
  const auto take = [](auto& mine, const auto& other) {
    if (other) mine = other;
  };
  take(spec_id, group.spec_id);
  take(set, group.set);
  take(binding, group.binding);
  take(built_in, group.built_in);
  take(array_stride, group.array_stride);
  take(offset, group.offset);
  take(matrix_stride, group.matrix_stride);
  row_major = row_major || group.row_major;
  buffer_block = buffer_block || group.buffer_block;
}

int64_t Value::as_signed() const {
  const uint32_t unused = 64 - std::clamp(width, 1U, 64U);
  return static_cast<int64_t>(bits << unused) >> unused;
}

spv_result_t Reader::read(spv_const_context context, std::span<const uint32_t> words,
                          spv_diagnostic* diagnostic) {
  return spvBinaryParse(context, this, words.data(), words.size(), nullptr, &Reader::visit,
                        diagnostic);
}

spv_result_t Reader::visit(void* reader, const Instruction* instruction) {
  static_cast<Reader*>(reader)->read(*instruction);
  return SPV_SUCCESS;
}

const Type& Reader::type(Id id) const {
  static const Type kUnknown{.size = kEndless};
  const auto found = types_.find(id);
  return found == types_.end() ? kUnknown : found->second;
}

const Decorations& Reader::decorations(Id id) const {
  static const Decorations kNone;
  const auto found = decorations_.find(id);
  return found == decorations_.end() ? kNone : found->second;
}

std::optional<Value> Reader::value(Id id) const {
  const auto found = values_.find(id);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

std::array<std::optional<uint64_t>, 3> Reader::group_size(const EntryPoint& entry) const {
  std::array<std::optional<uint64_t>, 3> size;
  if (group_size_object_ != 0) {
    const auto parts = composites_.find(group_size_object_);
    for (size_t axis = 0; axis < 3; ++axis) {
      if (parts == composites_.end() || axis >= parts->second.size()) continue;
      if (const auto part = value(parts->second[axis])) size.at(axis) = part->bits;
    }
  } else if (const auto found = local_sizes_.find(entry.function); found != local_sizes_.end()) {
    for (size_t axis = 0; axis < 3; ++axis) size.at(axis) = found->second.at(axis);
  }
  return size;
}

std::unordered_set<Id> Reader::used_by(const EntryPoint& entry) const {
  std::unordered_set<Id> used(entry.interface.begin(), entry.interface.end());
  std::vector<Id> functions{entry.function};
  while (!functions.empty()) {
    const auto mentioned = mentions_.find(functions.back());
    functions.pop_back();
    if (mentioned == mentions_.end()) continue;
    for (const Id id : mentioned->second) {
      if (used.insert(id).second && mentions_.contains(id)) functions.push_back(id);
    }
  }
  return used;
}

void Reader::read(const Instruction& i) {
  const auto op = static_cast<spv::Op>(i.opcode);
  if (function_ != 0 || op == spv::Op::OpFunction) {
    read_in_function(i, op);
    return;
  }
  switch (op) {
    case spv::Op::OpCapability: capabilities_.insert(word(i, 1)); break;
    case spv::Op::OpEntryPoint: read_entry_point(i); break;
    case spv::Op::OpExecutionMode:
      if (static_cast<spv::ExecutionMode>(word(i, 2)) == spv::ExecutionMode::LocalSize) {
        local_sizes_[word(i, 1)] = {word(i, 3), word(i, 4), word(i, 5)};
      }
      break;
    case spv::Op::OpDecorate:
      decorations_[word(i, 1)].add(static_cast<spv::Decoration>(word(i, 2)), word(i, 3));
      break;
    case spv::Op::OpMemberDecorate:
      members_[member(word(i, 1), word(i, 2))].add(static_cast<spv::Decoration>(word(i, 3)),
                                                   word(i, 4));
      break;
    case spv::Op::OpGroupDecorate: {
      const Decorations group = decorations(word(i, 1));
      for (const Id target : words_from(i, 2)) decorations_[target].add(group);
      break;
    }
    case spv::Op::OpGroupMemberDecorate: {
      const Decorations group = decorations(word(i, 1));
      const auto targets = words_from(i, 2);
      for (size_t t = 0; t + 1 < targets.size(); t += 2) {
        members_[member(targets[t], targets[t + 1])].add(group);
      }
      break;
    }
    case spv::Op::OpVariable:
      variables_.push_back({i.result_id, i.type_id, static_cast<spv::StorageClass>(word(i, 3))});
      break;
    default:
      read_type(i, op);
      read_constant(i, op);
      break;
  }
}

void Reader::read_in_function(const Instruction& i, spv::Op op) {
  if (op == spv::Op::OpFunction) {
    function_ = i.result_id;
    mentions_[function_];
    return;
  }
  if (op == spv::Op::OpFunctionEnd) {
    function_ = 0;
    return;
  }
  for (uint16_t o = 0; o < i.num_operands; ++o) {
    const spv_parsed_operand_t& operand = i.operands[o];
    if (operand.type == SPV_OPERAND_TYPE_ID) {
      mentions_[function_].insert(word(i, operand.offset));
    }
  }
}

void Reader::read_entry_point(const Instruction& i) {
  EntryPoint entry{static_cast<spv::ExecutionModel>(word(i, 1)), word(i, 2), {}, {}};
  for (uint16_t o = 2; o < i.num_operands; ++o) {
    const spv_parsed_operand_t& operand = i.operands[o];
    if (operand.type == SPV_OPERAND_TYPE_LITERAL_STRING) {
      const char* const text = reinterpret_cast<const char*>(i.words + operand.offset);
      entry.name.assign(text, ::strnlen(text, size_t{4} * operand.num_words));
    } else if (operand.type == SPV_OPERAND_TYPE_ID) {
      entry.interface.push_back(word(i, operand.offset));
    }
  }
  entry_points_.push_back(std::move(entry));
}

void Reader::read_type(const Instruction& i, spv::Op op) {
  Type type;
  switch (op) {
    case spv::Op::OpTypeBool: type = {.kind = Type::Kind::scalar, .width = 32, .size = 4}; break;
    case spv::Op::OpTypeInt:
    case spv::Op::OpTypeFloat:
      type = {.kind = Type::Kind::scalar, .width = word(i, 2), .size = word(i, 2) / 8};
      break;
    case spv::Op::OpTypeVector: {
      const Type& of = this->type(word(i, 2));
      type = {.kind = Type::Kind::vector, .count = word(i, 3)};
      type.size = product(of.size, type.count);
      type.component = of.size;
      break;
    }
    case spv::Op::OpTypeMatrix: {
      const Type& column = this->type(word(i, 2));
      type = {.kind = Type::Kind::matrix, .columns = word(i, 3), .rows = column.count};
      type.size = product(column.size, type.columns);
      type.component = column.component;
      break;
    }
    case spv::Op::OpTypeArray:
    case spv::Op::OpTypeRuntimeArray: type = array_type(i, op); break;
    case spv::Op::OpTypeStruct: type = struct_type(i); break;
    case spv::Op::OpTypeForwardPointer:
      // Structures may hold it before its OpTypePointer comes; that one then replaces this.
      types_[word(i, 1)] = {.kind = Type::Kind::pointer, .size = 8};
      return;
    case spv::Op::OpTypePointer:
      type = {.kind = Type::Kind::pointer,
              .inner = word(i, 3),
              .storage = static_cast<spv::StorageClass>(word(i, 2)),
              .size = 8};
      break;
    default: return;
  }
  type_depth_ = std::max(type_depth_, type.depth);
  types_[i.result_id] = type;
}

Type Reader::array_type(const Instruction& i, spv::Op op) const {
  const Id inner = word(i, 2);
  const Type& of = type(inner);
  Type array{.kind = Type::Kind::array, .depth = of.depth + 1, .inner = inner, .size = kEndless};
  const auto length = op == spv::Op::OpTypeArray ? value(word(i, 3)) : std::nullopt;
  if (!length) return array;
  const uint64_t stride = decorations(i.result_id).array_stride.value_or(0);
  const uint64_t last =
      product(stride != 0 ? stride : of.size, length->bits == 0 ? 0 : length->bits - 1);
  array.size = sum(last, of.size);
  array.matrix_at = sum(last, of.matrix_at);
  array.columns = of.columns;
  array.rows = of.rows;
  array.component = of.component;
  return array;
}

Type Reader::struct_type(const Instruction& i) const {
  Type structure{.kind = Type::Kind::structure};
  uint32_t index = 0;
  for (const Id id : words_from(i, 2)) {
    const Type& of = type(id);
    structure.depth = std::max(structure.depth, of.depth + 1);
    const auto found = members_.find(member(i.result_id, index++));
    const Decorations placed = found == members_.end() ? Decorations{} : found->second;
    uint64_t size = of.size;
    if (of.columns != 0 && placed.matrix_stride) {
      const uint64_t vectors = placed.row_major ? of.rows : of.columns;
      const uint64_t components = placed.row_major ? of.columns : of.rows;
      size = sum(of.matrix_at, sum(product(*placed.matrix_stride, vectors - 1),
                                   product(of.component, components)));
    }
    structure.size = placed.offset ? std::max(structure.size, sum(*placed.offset, size))
                                   : sum(structure.size, size);
  }
  return structure;
}

void Reader::read_constant(const Instruction& i, spv::Op op) {
  const uint32_t width = std::clamp(type(i.type_id).width, 1U, 64U);
  std::optional<uint64_t> bits;
  switch (op) {
    case spv::Op::OpConstant:
    case spv::Op::OpSpecConstant: bits = word(i, 3) | uint64_t{word(i, 4)} << 32; break;
    case spv::Op::OpConstantTrue:
    case spv::Op::OpSpecConstantTrue: bits = 1; break;
    case spv::Op::OpConstantFalse:
    case spv::Op::OpSpecConstantFalse:
    case spv::Op::OpConstantNull: bits = 0; break;
    case spv::Op::OpSpecConstantOp: bits = operation(i); break;
    case spv::Op::OpConstantComposite:
    case spv::Op::OpSpecConstantComposite: composites_[i.result_id] = words_from(i, 3); break;
    default: return;
  }
  const Decorations& decorated = decorations(i.result_id);
  if (decorated.built_in == static_cast<uint32_t>(spv::BuiltIn::WorkgroupSize)) {
    group_size_object_ = i.result_id;
  }
  if (decorated.spec_id) {
    const bool truth = op == spv::Op::OpSpecConstantTrue || op == spv::Op::OpSpecConstantFalse;
    spec_constants_[*decorated.spec_id] = width / 8;
    for (const SpirvModule::Constant& given : constants_) {
      if (given.id == *decorated.spec_id) bits = truth ? uint64_t{given.bits != 0} : given.bits;
    }
  }
  if (!bits) return;
  if (width < 64) *bits &= (uint64_t{1} << width) - 1;
  values_[i.result_id] = {*bits, width};
}

std::optional<uint64_t> Reader::operation(const Instruction& i) const {
  const auto op = static_cast<spv::Op>(word(i, 3));
  if (op == spv::Op::OpCompositeExtract) {
    const auto parts = composites_.find(word(i, 4));
    if (parts == composites_.end() || i.num_words != 6) return std::nullopt;
    const uint32_t index = word(i, 5);
    if (index >= parts->second.size()) return std::nullopt;
    const auto part = value(parts->second[index]);
    return part ? std::optional(part->bits) : std::nullopt;
  }
  const auto first = value(word(i, 4));
  if (!first) return std::nullopt;
  switch (op) {
    case spv::Op::OpNot: return ~first->bits;
    case spv::Op::OpSNegate: return 0 - first->bits;
    case spv::Op::OpLogicalNot: return first->bits == 0;
    case spv::Op::OpUConvert: return first->bits;
    case spv::Op::OpSConvert: return static_cast<uint64_t>(first->as_signed());
    case spv::Op::OpSelect: {
      const auto chosen = value(word(i, first->bits != 0 ? 5 : 6));
      return chosen ? std::optional(chosen->bits) : std::nullopt;
    }
    default: break;
  }
  const auto second = value(word(i, 5));
  return second ? folded(op, *first, *second) : std::nullopt;
}

}  // namespace holdfast::hal::spirv
