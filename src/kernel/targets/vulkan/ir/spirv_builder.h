#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <spirv/unified1/spirv.hpp11>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::kernel {

using SpirvId = uint32_t;
using SpirvWords = std::vector<uint32_t>;

// Writes a module for Vulkan 1.2 with one compute entry point, "main". Types and constants are
// there once each, and capabilities are those of the types.
class SpirvBuilder {
 public:
  SpirvBuilder();

  SpirvId id() noexcept { return next_++; }
  // An instruction, into a section.
  static void put(SpirvWords& into, spv::Op op, std::initializer_list<uint32_t> operands) {
    put(into, op, std::vector<uint32_t>(operands));
  }
  static void put(SpirvWords& into, spv::Op op, const std::vector<uint32_t>& operands);

  void need(spv::Capability capability) { capabilities_.insert(capability); }
  void need(std::string_view extension) { extensions_.emplace(extension); }
  void mode(spv::ExecutionMode mode, const std::vector<uint32_t>& operands);

  SpirvId nothing() { return unique(spv::Op::OpTypeVoid, {}); }
  SpirvId boolean() { return unique(spv::Op::OpTypeBool, {}); }
  SpirvId integer(uint32_t bits);   // 8, 16, 32, 64
  SpirvId floating(uint32_t bits);  // 16, 32, 64
  SpirvId vector(SpirvId element, uint32_t count) {
    return unique(spv::Op::OpTypeVector, {element, count});
  }
  SpirvId pointer(spv::StorageClass storage, SpirvId to) {
    return unique(spv::Op::OpTypePointer, {static_cast<uint32_t>(storage), to});
  }
  SpirvId array(SpirvId element, uint32_t count) {
    return unique(spv::Op::OpTypeArray, {element, u32(count)});
  }

  // A block whose one member is of the type, and coherent.
  SpirvId coherent(SpirvId of);

  SpirvId constant(SpirvId type, uint64_t bits, uint32_t width);
  SpirvId u32(uint32_t value) { return constant(integer(32), value, 32); }
  SpirvId u64(uint64_t value) { return constant(integer(64), value, 64); }
  SpirvId truth(bool value);
  SpirvId zero(SpirvId type) { return unique(spv::Op::OpConstantNull, {type}, 1); }
  SpirvId composite(SpirvId type, const std::vector<SpirvId>& parts);

  // Module-scope variables, part of the entry point's interface.
  SpirvId variable(spv::StorageClass storage, SpirvId type, SpirvId initial = 0);
  SpirvId input(spv::BuiltIn what, SpirvId type);
  // The push constants: an array of addresses and one of words, as far as they have elements.
  SpirvId push_constants(uint32_t addresses, uint32_t words);
  // The group's size: specialization constants 0 to 2.
  SpirvId group_size();
  // As many elements as a group has threads.
  SpirvId array_of_group(SpirvId element);
  void decorate(SpirvId id, spv::Decoration decoration, std::initializer_list<uint32_t> more = {});

  // A text that the module carries for whoever reads it.
  void text(std::string_view text);

  SpirvId glsl() const noexcept { return glsl_; }

  // The whole module. `variables` stand at the begin of the function, whose first block `body`
  // begins behind its label.
  SpirvWords finish(const SpirvWords& variables, const SpirvWords& body, SpirvId first_label);

 private:
  SpirvId unique(spv::Op op, const std::vector<uint32_t>& operands, size_t result_at = 0);

  SpirvId next_ = 1;
  SpirvId glsl_;
  SpirvId main_;
  std::set<spv::Capability> capabilities_;
  std::set<std::string> extensions_;
  std::map<std::vector<uint32_t>, SpirvId> unique_;
  std::map<spv::BuiltIn, SpirvId> inputs_;
  std::map<SpirvId, SpirvId> coherent_;
  SpirvId push_constants_ = 0;
  SpirvId group_size_ = 0;
  std::vector<SpirvId> sizes_;  // its parts
  SpirvWords modes_;
  SpirvWords texts_;
  SpirvWords annotations_;
  SpirvWords types_;
  std::vector<SpirvId> interface_;
};

}  // namespace holdfast::kernel
