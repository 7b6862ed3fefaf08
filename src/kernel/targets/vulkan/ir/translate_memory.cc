#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "holdfast/kernel/targets/vulkan/ir/translator.h"

namespace holdfast::kernel::ir {
namespace {

// More is written as a loop by nobody: such a copy is an array that is initialized.
constexpr uint64_t kMostChunks = 16'384;

// Of one constant: an instruction has fewer than 2^16 words.
constexpr uint64_t kMostTableParts = 65'000;

spv::StorageClass storage_class(Storage storage) {
  switch (storage) {
    case Storage::threadgroup: return spv::StorageClass::Workgroup;
    case Storage::constant: return spv::StorageClass::Private;
    case Storage::parameters: return spv::StorageClass::PushConstant;
    default: return spv::StorageClass::Function;
  }
}

// The operand of a load or store.
constexpr uint32_t device_access(bool is_volatile) {
  return static_cast<uint32_t>(spv::MemoryAccessMask::Aligned) |
         (is_volatile ? static_cast<uint32_t>(spv::MemoryAccessMask::Volatile) : 0);
}

}  // namespace

bool Translator::is_device(const Region* region) const {
  return region == nullptr || (region->storage == Storage::parameters && !pushed_);
}

uint64_t Translator::constant_pointer(const Value& value) const {
  const Value* base = &value;
  int64_t bytes = 0;
  for (; base->is(Opcode::gep); base = base->operands[0]) {
    const Moves moves = moves_of(*base);
    if (!moves.scaled.empty()) break;
    bytes += moves.bytes;
  }
  const auto offset = offsets_.find(base);
  const Region* region = memory_.region_of(base);
  if (offset == offsets_.end() || region == nullptr) {
    throw Refused{"a table of constants holds pointers that Vulkan cannot have"};
  }
  return (offset->second + static_cast<uint64_t>(bytes)) / region->unit;
}

void Translator::flatten(const Value& value, std::vector<uint8_t>& bytes, uint64_t at) const {
  switch (value.kind) {
    case ValueKind::number:
      std::memcpy(bytes.data() + at, &value.bits, std::min<uint64_t>(size_of(*value.type), 8));
      break;
    case ValueKind::aggregate:
      for (size_t i = 0; i < value.operands.size(); ++i) {
        const uint64_t offset = value.type->is(TypeKind::structure)
                                    ? offset_of(*value.type, i)
                                    : i * size_of(*value.type->element);
        flatten(*value.operands[i], bytes, at + offset);
      }
      break;
    case ValueKind::zero:
    case ValueKind::undefined: break;
    default: {
      const uint64_t pointer = constant_pointer(value);
      if (at + sizeof pointer > bytes.size()) throw Refused{"a table of constants is too small"};
      std::memcpy(bytes.data() + at, &pointer, sizeof pointer);
    }
  }
}

Translator::Id Translator::initial_of(const Region& region, Id element, uint64_t count) {
  const auto is_set = [](const Region::Object& object) {
    return object.initial != nullptr && object.initial->kind != ValueKind::undefined;
  };
  if (std::ranges::none_of(region.objects, is_set)) return 0;
  if (count > kMostTableParts) refuse("it has a table of constants that is too large for Vulkan");
  std::vector<uint8_t> bytes(region.size);
  for (const Region::Object& object : region.objects) {
    if (!is_set(object)) continue;
    flatten(*object.initial, bytes, object.offset);
  }
  std::vector<Id> parts;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * region.width, region.width);
    parts.push_back(spirv_.constant(element, bits, static_cast<uint32_t>(region.width * 8)));
  }
  return spirv_.composite(spirv_.array(element, static_cast<uint32_t>(count)), parts);
}

void Translator::declare_regions() {
  for (const Region& region : memory_.regions()) {
    for (const Region::Object& object : region.objects) offsets_[object.address] = object.offset;
  }
  for (const Region& region : memory_.regions()) {
    if (region.storage == Storage::parameters || region.storage == Storage::mixed) continue;
    if (!region.is_accessed) continue;
    const uint64_t count = region.size / region.width;
    if (count > UINT32_MAX) refuse("its variables are larger than any device's memory");
    const bool plain = region.element == nullptr || region.element->is(TypeKind::pointer) ||
                       region.element->is_integer(1);
    const Id element =
        plain ? spirv_.integer(static_cast<uint32_t>(region.width * 8)) : type_of(*region.element);
    const Id type = spirv_.array(element, static_cast<uint32_t>(count));
    const Id initial = initial_of(region, element, count);
    if (region.storage == Storage::own) {
      const Id pointer = spirv_.pointer(spv::StorageClass::Function, type);
      const Id made = spirv_.id();
      std::vector<uint32_t> words{pointer, made,
                                  static_cast<uint32_t>(spv::StorageClass::Function)};
      if (initial != 0) words.push_back(initial);
      SpirvBuilder::put(variables_, spv::Op::OpVariable, words);
      region_variables_[&region] = made;
    } else {
      region_variables_[&region] = spirv_.variable(storage_class(region.storage), type, initial);
    }
  }
}

bool Translator::is_wide(const Region* region) const {
  return is_device(region) || region->storage == Storage::mixed;
}

Translator::Id Translator::as_mixed(Id pointer, const Region* from) {
  if (is_wide(from)) return pointer;
  const Id wide = spirv_.integer(64);
  const Id bytes =
      make(spv::Op::OpIMul, wide, {convert(pointer, 32, 64, false), spirv_.u64(from->unit)});
  const Id tagged =
      make(spv::Op::OpBitwiseOr, wide, {bytes, spirv_.u64(uint64_t{from->tag} << kTagShift)});
  const Id is_null = make(spv::Op::OpIEqual, spirv_.boolean(), {pointer, spirv_.u32(from->null)});
  return make(spv::Op::OpSelect, wide, {is_null, spirv_.u64(0), tagged});
}

void Translator::each_member(Id pointer, const Region& mixed,
                             const std::function<void(Id, const Region*)>& access) {
  const Id wide = spirv_.integer(64);
  const Id tag = make(spv::Op::OpShiftRightLogical, wide, {pointer, spirv_.u32(kTagShift)});
  for (const Region* member : mixed.members) {
    const Id yes = spirv_.id(), behind = spirv_.id();
    const Id own = spirv_.u64(is_device(member) ? 0 : member->tag);
    const Id is = make(spv::Op::OpIEqual, spirv_.boolean(), {tag, own});
    put(spv::Op::OpSelectionMerge, {behind, 0});
    put(spv::Op::OpBranchConditional, {is, yes, behind});
    put(spv::Op::OpLabel, {yes});
    if (is_device(member)) {
      const Id address =
          make(spv::Op::OpBitwiseAnd, wide, {pointer, spirv_.u64(bit_mask(kTagShift))});
      access(address, member);
    } else {
      Id at = convert(pointer, 64, 32, false);
      const auto shift = static_cast<uint32_t>(std::countr_zero(member->unit));
      if (shift > 0) {
        at = make(spv::Op::OpShiftRightLogical, spirv_.integer(32), {at, spirv_.u32(shift)});
      }
      access(at, member);
    }
    put(spv::Op::OpBranch, {behind});
    put(spv::Op::OpLabel, {behind});
  }
}

Translator::Id Translator::moved(Id pointer, const Region* region, int64_t bytes) {
  if (bytes == 0) return pointer;
  if (is_wide(region)) {
    return make(spv::Op::OpIAdd, spirv_.integer(64),
                {pointer, spirv_.u64(static_cast<uint64_t>(bytes))});
  }
  const auto units = static_cast<uint32_t>(bytes / static_cast<int64_t>(region->unit));
  return make(spv::Op::OpIAdd, spirv_.integer(32), {pointer, spirv_.u32(units)});
}

// A volatile access may still be answered by a cache that other groups do not share, as NVIDIA's
// are: only what is coherent is ordered for them.
Translator::Id Translator::device_pointer(Id address, Id type, bool is_volatile) {
  const Id pointer = spirv_.pointer(spv::StorageClass::PhysicalStorageBuffer, type);
  if (!is_volatile || !exchanged_.across_groups()) {
    return make(spv::Op::OpConvertUToPtr, pointer, {address});
  }
  const Id block = make(
      spv::Op::OpConvertUToPtr,
      spirv_.pointer(spv::StorageClass::PhysicalStorageBuffer, spirv_.coherent(type)), {address});
  return make(spv::Op::OpAccessChain, pointer, {block, spirv_.u32(0)});
}

Translator::Id Translator::to_bits(Id value, const Type& type) {
  if (!type.is(TypeKind::floating)) return value;
  return make(spv::Op::OpBitcast, spirv_.integer(type.bits), {value});
}

Translator::Id Translator::from_bits(Id bits, const Type& type) {
  if (!type.is(TypeKind::floating)) return bits;
  return make(spv::Op::OpBitcast, spirv_.floating(type.bits), {bits});
}

Translator::Id Translator::element_pointer(Id pointer, const Region& region, uint64_t index) {
  const Id word = spirv_.integer(32);
  Id at = pointer;
  if (region.unit < region.width) {
    const auto shift = static_cast<uint32_t>(std::countr_zero(region.width / region.unit));
    at = make(spv::Op::OpShiftRightLogical, word, {at, spirv_.u32(shift)});
  }
  if (index != 0) {
    at = make(spv::Op::OpIAdd, word, {at, spirv_.u32(static_cast<uint32_t>(index))});
  }
  const bool plain = region.element == nullptr || region.element->is(TypeKind::pointer);
  const Id element =
      plain ? spirv_.integer(static_cast<uint32_t>(region.width * 8)) : type_of(*region.element);
  return make(spv::Op::OpAccessChain, spirv_.pointer(storage_class(region.storage), element),
              {region_variables_.at(&region), at});
}

// Of push constants, which are words.
Translator::Id Translator::load_parameter(Id pointer, const Type& type) {
  const Id word = spirv_.integer(32);
  const auto bits = static_cast<uint32_t>(size_of(type) * 8);
  const Id first = make(spv::Op::OpShiftRightLogical, word, {pointer, spirv_.u32(2)});
  const auto at = [&](uint32_t more) {
    const Id index = more == 0 ? first : make(spv::Op::OpIAdd, word, {first, spirv_.u32(more)});
    const Id member = spirv_.u32(push_addresses_ > 0 ? 1 : 0);
    const Id place =
        make(spv::Op::OpAccessChain, spirv_.pointer(spv::StorageClass::PushConstant, word),
             {push_constants(), member, index});
    return make(spv::Op::OpLoad, word, {place});
  };
  if (bits == 32) return from_bits(at(0), type);
  if (bits == 64) {
    const Id wide = spirv_.integer(64);
    const Id low = make(spv::Op::OpUConvert, wide, {at(0)});
    const Id high = make(spv::Op::OpShiftLeftLogical, wide,
                         {make(spv::Op::OpUConvert, wide, {at(1)}), spirv_.u64(32)});
    return from_bits(make(spv::Op::OpBitwiseOr, wide, {low, high}), type);
  }
  const Id byte = make(spv::Op::OpBitwiseAnd, word, {pointer, spirv_.u32(3)});
  const Id shift = make(spv::Op::OpShiftLeftLogical, word, {byte, spirv_.u32(3)});
  const Id part = make(spv::Op::OpShiftRightLogical, word, {at(0), shift});
  return from_bits(make(spv::Op::OpUConvert, spirv_.integer(bits), {part}), type);
}

Translator::Id Translator::load_number(Id pointer, const Region* region, const Type& type,
                                       uint64_t align, bool is_volatile) {
  const uint64_t size = size_of(type);
  if (type.is(TypeKind::integer) && type.bits != size * 8) {
    if (type.bits == 1) {
      const Type& byte = *module_.integer(8);
      const Id whole = load_number(pointer, region, byte, align, is_volatile);
      return make(spv::Op::OpINotEqual, spirv_.boolean(), {whole, number(byte, 0)});
    }
    (void)type_of(type);  // refuses what is too wide
    const uint32_t width = container(type.bits);
    Id result = number(type, 0);
    for (uint32_t at = 0; at * 8 < type.bits; ++at) {
      Id part =
          load_number(moved(pointer, region, at), region, *module_.integer(8), 1, is_volatile);
      part = convert(part, 8, width, false);
      part = make(spv::Op::OpShiftLeftLogical, type_of(type), {part, spirv_.u32(at * 8)});
      result = make(spv::Op::OpBitwiseOr, type_of(type), {result, part});
    }
    return cut(type, result);
  }
  if (!is_device(region) && region->storage == Storage::mixed) {
    const Id variable = local(type_of(type));
    each_member(pointer, *region, [&](Id at, const Region* member) {
      put(spv::Op::OpStore, {variable, load_number(at, member, type, align, is_volatile)});
    });
    return make(spv::Op::OpLoad, type_of(type), {variable});
  }
  if (is_device(region) && align < size) {
    // Vulkan reads no number that is not aligned to its own size.
    const auto step = static_cast<uint32_t>(align * 8);
    const auto bits = static_cast<uint32_t>(size * 8);
    const Id whole = spirv_.integer(bits);
    Id result = 0;
    for (uint64_t at = 0; at < size; at += align) {
      Id part = load_number(moved(pointer, region, static_cast<int64_t>(at)), region,
                            *module_.integer(step), align, is_volatile);
      part = convert(part, step, bits, false);
      if (at == 0) {
        result = part;
        continue;
      }
      part = make(spv::Op::OpShiftLeftLogical, whole, {part, spirv_.constant(whole, at * 8, bits)});
      result = make(spv::Op::OpBitwiseOr, whole, {result, part});
    }
    return from_bits(result, type);
  }
  if (is_device(region)) {
    if (size == 1) spirv_.need(spv::Capability::StorageBuffer8BitAccess);
    if (size == 2) spirv_.need(spv::Capability::StorageBuffer16BitAccess);
    const Id wanted = type_of(type);
    return make(spv::Op::OpLoad, wanted,
                {device_pointer(pointer, wanted, is_volatile), device_access(is_volatile),
                 static_cast<uint32_t>(std::min(align, size))});
  }
  if (region->storage == Storage::parameters) return load_parameter(pointer, type);
  if (!region_variables_.contains(region)) return number(type, 0);
  const bool same = region->element == &type && !type.is(TypeKind::pointer);
  if (same) return make(spv::Op::OpLoad, type_of(type), {element_pointer(pointer, *region, 0)});
  // In parts of the array's width.
  const auto width = static_cast<uint32_t>(region->width * 8);
  const auto bits = static_cast<uint32_t>(size * 8);
  const Id whole = spirv_.integer(bits);
  const Id part_type = spirv_.integer(width);
  const bool stored_plain = region->element == nullptr || region->element->is(TypeKind::pointer);
  Id result = 0;
  for (uint64_t i = 0; i * region->width < size; ++i) {
    const Id place = element_pointer(pointer, *region, i);
    Id part = stored_plain ? make(spv::Op::OpLoad, part_type, {place})
                           : to_bits(make(spv::Op::OpLoad, type_of(*region->element), {place}),
                                     *region->element);
    if (width == bits) return from_bits(part, type);
    part = make(spv::Op::OpUConvert, whole, {part});
    if (i == 0) {
      result = part;
      continue;
    }
    part =
        make(spv::Op::OpShiftLeftLogical, whole, {part, spirv_.constant(whole, i * width, bits)});
    result = make(spv::Op::OpBitwiseOr, whole, {result, part});
  }
  return from_bits(result, type);
}

void Translator::store_number(Id pointer, const Region* region, const Type& type, Id value,
                              uint64_t align, bool is_volatile) {
  const uint64_t size = size_of(type);
  if (type.is(TypeKind::integer) && type.bits != size * 8) {
    if (type.bits == 1) {
      const Type& byte = *module_.integer(8);
      const Id whole =
          make(spv::Op::OpSelect, type_of(byte), {value, number(byte, 1), number(byte, 0)});
      store_number(pointer, region, byte, whole, align, is_volatile);
      return;
    }
    (void)type_of(type);
    for (uint32_t at = 0; at * 8 < type.bits; ++at) {
      const Id part =
          make(spv::Op::OpShiftRightLogical, type_of(type), {value, spirv_.u32(at * 8)});
      store_number(moved(pointer, region, at), region, *module_.integer(8),
                   convert(part, container(type.bits), 8, false), 1, is_volatile);
    }
    return;
  }
  if (!is_device(region) && region->storage == Storage::mixed) {
    each_member(pointer, *region, [&](Id at, const Region* member) {
      // What is constant is not written, whatever a pointer may be.
      if (member != nullptr && member->storage == Storage::parameters) return;
      store_number(at, member, type, value, align, is_volatile);
    });
    return;
  }
  if (is_device(region) && align < size) {
    const auto step = static_cast<uint32_t>(align * 8);
    const auto bits = static_cast<uint32_t>(size * 8);
    const Id whole = spirv_.integer(bits);
    const Id all = to_bits(value, type);
    for (uint64_t at = 0; at < size; at += align) {
      const Id above = at == 0 ? all
                               : make(spv::Op::OpShiftRightLogical, whole,
                                      {all, spirv_.constant(whole, at * 8, bits)});
      store_number(moved(pointer, region, static_cast<int64_t>(at)), region, *module_.integer(step),
                   convert(above, bits, step, false), align, is_volatile);
    }
    return;
  }
  if (is_device(region)) {
    if (size == 1) spirv_.need(spv::Capability::StorageBuffer8BitAccess);
    if (size == 2) spirv_.need(spv::Capability::StorageBuffer16BitAccess);
    put(spv::Op::OpStore,
        {device_pointer(pointer, type_of(type), is_volatile), value, device_access(is_volatile),
         static_cast<uint32_t>(std::min(align, size))});
    return;
  }
  if (region->storage == Storage::parameters) refuse("it writes to what is constant");
  if (!region_variables_.contains(region)) return;
  if (region->element == &type && !type.is(TypeKind::pointer)) {
    put(spv::Op::OpStore, {element_pointer(pointer, *region, 0), value});
    return;
  }
  const auto width = static_cast<uint32_t>(region->width * 8);
  const auto bits = static_cast<uint32_t>(size * 8);
  const Id whole = spirv_.integer(bits);
  const bool stored_plain = region->element == nullptr || region->element->is(TypeKind::pointer);
  const Id all = to_bits(value, type);
  for (uint64_t i = 0; i * region->width < size; ++i) {
    Id part = all;
    if (width != bits) {
      if (i > 0) {
        part = make(spv::Op::OpShiftRightLogical, whole,
                    {part, spirv_.constant(whole, i * width, bits)});
      }
      part = make(spv::Op::OpUConvert, spirv_.integer(width), {part});
    }
    if (!stored_plain) part = from_bits(part, *region->element);
    put(spv::Op::OpStore, {element_pointer(pointer, *region, i), part});
  }
}

void Translator::numbers_in(const Type& type, uint64_t at,
                            std::vector<std::pair<uint64_t, const Type*>>& into) const {
  switch (type.kind) {
    case TypeKind::nothing: break;
    case TypeKind::vector:
      if (type.element->is_integer(1)) {
        throw Refused{"it keeps a vector of truths in memory; keep integers"};
      }
      if (has_odd_width(*type.element)) {
        throw Refused{
            fmt::format("it keeps a vector of integers of {} bits in memory; use 8, 16, "
                        "32 or 64 bits",
                        type.element->bits)};
      }
      [[fallthrough]];
    case TypeKind::array:
      for (uint64_t i = 0; i < type.count; ++i) {
        numbers_in(*type.element, at + i * size_of(*type.element), into);
      }
      break;
    case TypeKind::structure:
      for (size_t i = 0; i < type.fields.size(); ++i) {
        numbers_in(*type.fields[i], at + offset_of(type, i), into);
      }
      break;
    default: into.emplace_back(at, &type);
  }
}

// Structures as values have device pointers alone: see scalars_of().
void Translator::refuse_pointers_in(const std::vector<std::pair<uint64_t, const Type*>>& numbers,
                                    const Value* at) const {
  const bool any = std::ranges::any_of(
      numbers, [](const auto& part) { return part.second->is(TypeKind::pointer); });
  if (any && !is_device(memory_.content_of(at))) refuse(std::string(kPointerInValue));
}

void Translator::load(const Value& value) {
  const Value* from = value.operands[0];
  define(value, load_from(value, from));
}

Translator::Parts Translator::load_from(const Value& value, const Value* from) {
  const Region* region = memory_.region_of(from);
  const bool is_volatile = value.is_volatile || exchanged_.has(from);
  const Id pointer = use_pointer(from, region);
  const Type& type = *value.type;
  if (type.is(TypeKind::pointer)) {
    const Region* inside = memory_.content_of(from);
    Id bits = load_number(pointer, region, *module_.integer(64), value.align, is_volatile);
    if (!is_wide(inside)) bits = make(spv::Op::OpUConvert, spirv_.integer(32), {bits});
    return {bits};
  }
  const bool vector = type.is(TypeKind::vector) && (type.count == 2 || type.count == 4) &&
                      !type.element->is(TypeKind::pointer) && size_of(*type.element) >= 2;
  if (vector && is_device(region) && value.align >= size_of(type)) {
    const Id element = type_of(*type.element);
    const Id whole = spirv_.vector(element, static_cast<uint32_t>(type.count));
    if (size_of(*type.element) == 2) spirv_.need(spv::Capability::StorageBuffer16BitAccess);
    const Id loaded = make(
        spv::Op::OpLoad, whole,
        {device_pointer(pointer, whole, is_volatile), device_access(is_volatile), value.align});
    Parts parts;
    for (uint32_t i = 0; i < type.count; ++i) {
      parts.push_back(make(spv::Op::OpCompositeExtract, element, {loaded, i}));
    }
    return parts;
  }
  std::vector<std::pair<uint64_t, const Type*>> numbers;
  numbers_in(type, 0, numbers);
  refuse_pointers_in(numbers, from);
  Parts parts;
  for (const auto& [offset, part] : numbers) {
    const uint64_t align =
        std::min<uint64_t>(value.align, offset == 0 ? 16 : offset & (0 - offset));
    parts.push_back(load_number(moved(pointer, region, static_cast<int64_t>(offset)), region, *part,
                                align, is_volatile));
  }
  return parts;
}

void Translator::store(const Value& value) {
  const Value* stored = value.operands[0];
  const Value* to = value.operands[1];
  const Region* region = memory_.region_of(to);
  const bool is_volatile = value.is_volatile || exchanged_.has(to);
  const Id pointer = use_pointer(to, region);
  const Type& type = *stored->type;
  if (type.is(TypeKind::pointer)) {
    const Region* inside = memory_.content_of(to);
    Id bits = use_pointer(stored, inside);
    if (!is_wide(inside)) bits = make(spv::Op::OpUConvert, spirv_.integer(64), {bits});
    store_number(pointer, region, *module_.integer(64), bits, value.align, is_volatile);
    return;
  }
  const Parts parts = use(stored);
  const bool vector = type.is(TypeKind::vector) && (type.count == 2 || type.count == 4) &&
                      !type.element->is(TypeKind::pointer) && size_of(*type.element) >= 2;
  if (vector && is_device(region) && value.align >= size_of(type)) {
    const Id whole = spirv_.vector(type_of(*type.element), static_cast<uint32_t>(type.count));
    if (size_of(*type.element) == 2) spirv_.need(spv::Capability::StorageBuffer16BitAccess);
    const Id all = spirv_.id();
    std::vector<uint32_t> words{whole, all};
    words.insert(words.end(), parts.begin(), parts.end());
    SpirvBuilder::put(code_, spv::Op::OpCompositeConstruct, words);
    put(spv::Op::OpStore, {device_pointer(pointer, whole, is_volatile), all,
                           device_access(is_volatile), value.align});
    return;
  }
  std::vector<std::pair<uint64_t, const Type*>> numbers;
  numbers_in(type, 0, numbers);
  refuse_pointers_in(numbers, to);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto& [offset, part] = numbers[i];
    const uint64_t align =
        std::min<uint64_t>(value.align, offset == 0 ? 16 : offset & (0 - offset));
    store_number(moved(pointer, region, static_cast<int64_t>(offset)), region, *part, parts[i],
                 align, is_volatile);
  }
}

void Translator::gep(const Value& value) {
  const Region* region = memory_.region_of(&value);
  const Moves moves = moves_of(value);
  const bool device = is_wide(region);
  const uint32_t bits = device ? 64 : 32;
  const Id type = spirv_.integer(bits);
  Id at = moved(use_pointer(value.operands[0], region), region, moves.bytes);
  for (const Moves::Scaled& scaled : moves.scaled) {
    const Type& of = *scaled.index->type;
    Id index = as_signed(of, use_one(scaled.index));
    index = convert(index, container(of.bits), bits, true);
    uint64_t by = scaled.by;
    uint32_t shift = 0;
    if (!device) {
      if (by % region->unit == 0) {
        by /= region->unit;
      } else {
        shift = static_cast<uint32_t>(std::countr_zero(region->unit));
      }
    }
    if (by == 0) continue;
    if (std::has_single_bit(by) && by > 1) {
      index = make(spv::Op::OpShiftLeftLogical, type,
                   {index, spirv_.u32(static_cast<uint32_t>(std::countr_zero(by)))});
    } else if (by > 1) {
      index = make(spv::Op::OpIMul, type, {index, spirv_.constant(type, by, bits)});
    }
    if (shift > 0) {
      index = make(spv::Op::OpShiftRightArithmetic, type, {index, spirv_.u32(shift)});
    }
    at = make(spv::Op::OpIAdd, type, {at, index});
  }
  define(value, at);
}

void Translator::copy_memory(const Value& call) {
  const Value& length = *call.operands[2];
  if (length.kind == ValueKind::zero) return;
  const uint64_t chunk = chunk_of(call);
  if (length.kind != ValueKind::number || length.bits / chunk > kMostChunks) {
    refuse(
        "it copies memory whose size is not known when it is compiled, or large; write the "
        "copy as a loop over elements");
  }
  const Region* to = memory_.region_of(call.operands[0]);
  const Region* from = memory_.region_of(call.operands[1]);
  const Id target = use_pointer(call.operands[0], to);
  const Id source = use_pointer(call.operands[1], from);
  const bool reads_shared = exchanged_.has(call.operands[1]);
  const bool writes_shared = exchanged_.has(call.operands[0]);
  const Type& type = *module_.integer(static_cast<uint32_t>(chunk * 8));
  std::vector<Id> words;  // all before the first is written: the two may overlap
  for (uint64_t at = 0; at < length.bits; at += chunk) {
    words.push_back(load_number(moved(source, from, static_cast<int64_t>(at)), from, type, chunk,
                                reads_shared));
  }
  for (uint64_t i = 0; i < words.size(); ++i) {
    store_number(moved(target, to, static_cast<int64_t>(i * chunk)), to, type, words[i], chunk,
                 writes_shared);
  }
}

void Translator::fill_memory(const Value& call) {
  const Value& length = *call.operands[2];
  if (length.kind == ValueKind::zero) return;
  const uint64_t chunk = chunk_of(call);
  if (length.kind != ValueKind::number || length.bits / chunk > kMostChunks) {
    refuse(
        "it fills memory whose size is not known when it is compiled, or large; write it as a "
        "loop over elements");
  }
  const Region* to = memory_.region_of(call.operands[0]);
  const Id target = use_pointer(call.operands[0], to);
  const auto bits = static_cast<uint32_t>(chunk * 8);
  const Type& type = *module_.integer(bits);
  Id word = convert(use_one(call.operands[1]), 8, bits, false);
  for (uint32_t filled = 8; filled < bits; filled *= 2) {
    const Id above = make(spv::Op::OpShiftLeftLogical, type_of(type), {word, number(type, filled)});
    word = make(spv::Op::OpBitwiseOr, type_of(type), {word, above});
  }
  for (uint64_t at = 0; at < length.bits; at += chunk) {
    store_number(moved(target, to, static_cast<int64_t>(at)), to, type, word, chunk,
                 exchanged_.has(call.operands[0]));
  }
}

Translator::Id Translator::word_pointer(const Value* pointer, uint32_t bits) {
  const Region* region = memory_.region_of(pointer);
  const Id at = use_pointer(pointer, region);
  if (is_device(region)) return device_pointer(at, spirv_.integer(bits), false);
  const bool words = region->element != nullptr && region->element->is_integer(bits);
  if (region->storage != Storage::threadgroup || (!words && region->element != nullptr) ||
      region->width * 8 != bits) {
    refuse(
        "atomic operations share their memory with accesses of another size or type; give "
        "atomics an array of their own");
  }
  return element_pointer(at, *region, 0);
}

}  // namespace holdfast::kernel::ir
