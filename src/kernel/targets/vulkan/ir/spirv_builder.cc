#include "holdfast/kernel/targets/vulkan/ir/spirv_builder.h"

#include <cstddef>

namespace holdfast::kernel {
namespace {

constexpr uint32_t kVersion = 0x00010500;
constexpr size_t kMostOfText = 4096;  // an instruction has fewer than 2^16 words

std::vector<uint32_t> with_text(std::vector<uint32_t> words, std::string_view text) {
  uint32_t word = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    word |= uint32_t{static_cast<uint8_t>(text[i])} << (i % 4 * 8);
    if (i % 4 == 3) {
      words.push_back(word);
      word = 0;
    }
  }
  words.push_back(word);
  return words;
}

}  // namespace

SpirvBuilder::SpirvBuilder()
    : glsl_(id()),
      main_(id()),
      capabilities_{spv::Capability::Shader, spv::Capability::PhysicalStorageBufferAddresses} {
  need("SPV_KHR_physical_storage_buffer");
}

void SpirvBuilder::put(SpirvWords& into, spv::Op op, const std::vector<uint32_t>& operands) {
  into.push_back(static_cast<uint32_t>(operands.size() + 1) << 16 | static_cast<uint32_t>(op));
  into.insert(into.end(), operands.begin(), operands.end());
}

void SpirvBuilder::mode(spv::ExecutionMode mode, const std::vector<uint32_t>& operands) {
  std::vector<uint32_t> all{main_, static_cast<uint32_t>(mode)};
  all.insert(all.end(), operands.begin(), operands.end());
  put(modes_, spv::Op::OpExecutionMode, all);
}

SpirvId SpirvBuilder::unique(spv::Op op, const std::vector<uint32_t>& operands, size_t result_at) {
  std::vector<uint32_t> key = operands;
  key.push_back(static_cast<uint32_t>(op));
  const auto known = unique_.find(key);
  if (known != unique_.end()) return known->second;
  const SpirvId made = id();
  std::vector<uint32_t> all = operands;
  all.insert(all.begin() + static_cast<ptrdiff_t>(result_at), made);
  put(types_, op, all);
  unique_.emplace(std::move(key), made);
  return made;
}

SpirvId SpirvBuilder::integer(uint32_t bits) {
  if (bits == 8) need(spv::Capability::Int8);
  if (bits == 16) need(spv::Capability::Int16);
  if (bits == 64) need(spv::Capability::Int64);
  return unique(spv::Op::OpTypeInt, {bits, 0});
}

SpirvId SpirvBuilder::floating(uint32_t bits) {
  if (bits == 16) need(spv::Capability::Float16);
  if (bits == 64) need(spv::Capability::Float64);
  return unique(spv::Op::OpTypeFloat, {bits});
}

SpirvId SpirvBuilder::coherent(SpirvId of) {
  SpirvId& block = coherent_[of];
  if (block != 0) return block;
  block = id();
  put(types_, spv::Op::OpTypeStruct, {block, of});
  decorate(block, spv::Decoration::Block);
  put(annotations_, spv::Op::OpMemberDecorate,
      {block, 0, static_cast<uint32_t>(spv::Decoration::Offset), 0});
  put(annotations_, spv::Op::OpMemberDecorate,
      {block, 0, static_cast<uint32_t>(spv::Decoration::Coherent)});
  return block;
}

SpirvId SpirvBuilder::constant(SpirvId type, uint64_t bits, uint32_t width) {
  if (width == 64) {
    return unique(spv::Op::OpConstant,
                  {type, static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)}, 1);
  }
  return unique(spv::Op::OpConstant, {type, static_cast<uint32_t>(bits)}, 1);
}

SpirvId SpirvBuilder::truth(bool value) {
  return unique(value ? spv::Op::OpConstantTrue : spv::Op::OpConstantFalse, {boolean()}, 1);
}

SpirvId SpirvBuilder::composite(SpirvId type, const std::vector<SpirvId>& parts) {
  std::vector<uint32_t> operands{type};
  operands.insert(operands.end(), parts.begin(), parts.end());
  return unique(spv::Op::OpConstantComposite, operands, 1);
}

SpirvId SpirvBuilder::variable(spv::StorageClass storage, SpirvId type, SpirvId initial) {
  const SpirvId to = pointer(storage, type);
  const SpirvId made = id();
  std::vector<uint32_t> operands{to, made, static_cast<uint32_t>(storage)};
  if (initial != 0) operands.push_back(initial);
  put(types_, spv::Op::OpVariable, operands);
  interface_.push_back(made);
  return made;
}

SpirvId SpirvBuilder::input(spv::BuiltIn what, SpirvId type) {
  const auto known = inputs_.find(what);
  if (known != inputs_.end()) return known->second;
  const SpirvId made = variable(spv::StorageClass::Input, type);
  decorate(made, spv::Decoration::BuiltIn, {static_cast<uint32_t>(what)});
  return inputs_[what] = made;
}

SpirvId SpirvBuilder::push_constants(uint32_t addresses, uint32_t words) {
  if (push_constants_ != 0) return push_constants_;
  const SpirvId block = id();
  std::vector<uint32_t> operands{block};
  uint32_t offset = 0;
  const auto member = [&](uint32_t bits, uint32_t count) {
    if (count == 0) return;
    // An array type of its own: with a stride, which no other has.
    const SpirvId element = integer(bits);
    const SpirvId length = u32(count);
    const SpirvId type = id();
    put(types_, spv::Op::OpTypeArray, {type, element, length});
    decorate(type, spv::Decoration::ArrayStride, {bits / 8});
    put(annotations_, spv::Op::OpMemberDecorate,
        {block, static_cast<uint32_t>(operands.size() - 1),
         static_cast<uint32_t>(spv::Decoration::Offset), offset});
    operands.push_back(type);
    offset += count * (bits / 8);
  };
  member(64, addresses);
  member(32, words);
  put(types_, spv::Op::OpTypeStruct, operands);
  decorate(block, spv::Decoration::Block);
  return push_constants_ = variable(spv::StorageClass::PushConstant, block);
}

SpirvId SpirvBuilder::group_size() {
  if (group_size_ != 0) return group_size_;
  const SpirvId word = integer(32);
  const SpirvId three = vector(word, 3);
  std::vector<uint32_t> operands{three, 0};
  for (uint32_t i = 0; i < 3; ++i) {
    const SpirvId part = id();
    put(types_, spv::Op::OpSpecConstant, {word, part, 1});
    decorate(part, spv::Decoration::SpecId, {i});
    operands.push_back(part);
    sizes_.push_back(part);
  }
  group_size_ = id();
  operands[1] = group_size_;
  put(types_, spv::Op::OpSpecConstantComposite, operands);
  decorate(group_size_, spv::Decoration::BuiltIn,
           {static_cast<uint32_t>(spv::BuiltIn::WorkgroupSize)});
  return group_size_;
}

SpirvId SpirvBuilder::array_of_group(SpirvId element) {
  (void)group_size();
  const SpirvId word = integer(32);
  SpirvId count = sizes_[0];
  for (const size_t i : {size_t{1}, size_t{2}}) {
    const SpirvId product = id();
    put(types_, spv::Op::OpSpecConstantOp,
        {word, product, static_cast<uint32_t>(spv::Op::OpIMul), count, sizes_[i]});
    count = product;
  }
  const SpirvId made = id();
  put(types_, spv::Op::OpTypeArray, {made, element, count});
  return made;
}

void SpirvBuilder::decorate(SpirvId id, spv::Decoration decoration,
                            std::initializer_list<uint32_t> more) {
  std::vector<uint32_t> operands{id, static_cast<uint32_t>(decoration)};
  operands.insert(operands.end(), more.begin(), more.end());
  put(annotations_, spv::Op::OpDecorate, operands);
}

void SpirvBuilder::text(std::string_view text) {
  put(texts_, spv::Op::OpString, with_text({id()}, text.substr(0, kMostOfText)));
}

SpirvWords SpirvBuilder::finish(const SpirvWords& variables, const SpirvWords& body,
                                SpirvId first_label) {
  (void)group_size();
  const SpirvId none = nothing();
  const SpirvId signature = unique(spv::Op::OpTypeFunction, {none});
  SpirvWords all{spv::MagicNumber, kVersion, 0, next_, 0};
  for (const spv::Capability capability : capabilities_) {
    put(all, spv::Op::OpCapability, {static_cast<uint32_t>(capability)});
  }
  for (const std::string& name : extensions_) {
    put(all, spv::Op::OpExtension, with_text({}, name));
  }
  put(all, spv::Op::OpExtInstImport, with_text({glsl_}, "GLSL.std.450"));
  put(all, spv::Op::OpMemoryModel,
      {static_cast<uint32_t>(spv::AddressingModel::PhysicalStorageBuffer64),
       static_cast<uint32_t>(spv::MemoryModel::GLSL450)});
  std::vector<uint32_t> entry =
      with_text({static_cast<uint32_t>(spv::ExecutionModel::GLCompute), main_}, "main");
  entry.insert(entry.end(), interface_.begin(), interface_.end());
  put(all, spv::Op::OpEntryPoint, entry);
  put(all, spv::Op::OpExecutionMode,
      {main_, static_cast<uint32_t>(spv::ExecutionMode::LocalSize), 1, 1, 1});
  for (const SpirvWords* section : {&modes_, &texts_, &annotations_, &types_}) {
    all.insert(all.end(), section->begin(), section->end());
  }
  put(all, spv::Op::OpFunction, {none, main_, 0, signature});
  put(all, spv::Op::OpLabel, {first_label});
  all.insert(all.end(), variables.begin(), variables.end());
  all.insert(all.end(), body.begin(), body.end());
  put(all, spv::Op::OpFunctionEnd, {});
  return all;
}

}  // namespace holdfast::kernel
