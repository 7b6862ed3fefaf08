#include "holdfast/kernel/targets/vulkan/ir/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include "holdfast/base/rounding.h"
#include "holdfast/kernel/targets/vulkan/ir/refused.h"

namespace holdfast::kernel::ir {
namespace {

constexpr std::string_view kThreadgroupSection = "hf_threadgroup";

uint64_t low_bit(uint64_t value) { return value == 0 ? 0 : value & (0 - value); }

// A number that divides the value: a power of two.
uint64_t divisor_of(const Value& value, int depth = 0) {
  constexpr uint64_t kMost = 16;
  if (value.kind == ValueKind::number) return value.bits == 0 ? kMost : low_bit(value.bits);
  if (value.kind == ValueKind::zero) return kMost;
  if (depth > 4 || value.operands.empty()) return 1;
  const auto of = [&](size_t i) { return divisor_of(*value.operands[i], depth + 1); };
  if (value.is(Opcode::shl) && value.operands[1]->kind == ValueKind::number) {
    return value.operands[1]->bits >= 4 ? kMost : std::min(of(0) << value.operands[1]->bits, kMost);
  }
  if (value.is(Opcode::mul)) return std::min(of(0) * of(1), kMost);
  if (value.is(Opcode::add) || value.is(Opcode::sub) || value.is(Opcode::bit_or)) {
    return std::min(of(0), of(1));
  }
  if (value.is(Opcode::bit_and)) return std::max(of(0), of(1));
  if (value.is(Opcode::zext) || value.is(Opcode::sext) || value.is(Opcode::trunc) ||
      value.is(Opcode::freeze)) {
    return of(0);
  }
  return 1;
}

bool starts_with(const Value& value, std::string_view name) {
  return value.is(Opcode::call) && value.callee.starts_with(name);
}

}  // namespace

bool copies_memory(const Value& value) {
  return starts_with(value, "llvm.memcpy") || starts_with(value, "llvm.memmove");
}
bool fills_memory(const Value& value) { return starts_with(value, "llvm.memset"); }

uint64_t chunk_of(const Value& call) {
  uint64_t chunk = std::min<uint64_t>(8, call.indices[0]);
  if (copies_memory(call)) chunk = std::min<uint64_t>(chunk, call.indices[1]);
  const Value& length = *call.operands[2];
  if (length.kind == ValueKind::number && length.bits != 0) {
    chunk = std::min(chunk, low_bit(length.bits));
  }
  return std::bit_floor(std::max<uint64_t>(chunk, 1));
}

Moves moves_of(const Value& gep) {
  Moves result;
  const Type* t = gep.inner;
  for (size_t i = 1; i < gep.operands.size(); ++i) {
    Value* index = gep.operands[i];
    const bool known = index->kind == ValueKind::number || index->kind == ValueKind::zero;
    const uint64_t number = index->kind == ValueKind::number ? index->bits : 0;
    if (i > 1 && t->is(TypeKind::structure)) {
      result.bytes += static_cast<int64_t>(offset_of(*t, number));
      t = t->fields[number];
      continue;
    }
    if (i > 1) t = t->element;
    const uint64_t size = size_of(*t);
    if (known) {
      const uint32_t spare = 64 - std::min<uint32_t>(index->type->bits, 64);
      const int64_t wide = static_cast<int64_t>(number << spare) >> spare;
      result.bytes += static_cast<int64_t>(static_cast<uint64_t>(wide) * size);
    } else {
      result.scaled.push_back({index, size});
    }
  }
  return result;
}

// After Steensgaard: what may be one becomes one, and so does what is stored there.
class MemoryFinder {
 public:
  MemoryFinder(Module& module, Function& function, Memory& result)
      : module_(module), function_(function), result_(result) {}

  void run() {
    device_ = add();
    nodes_[device_].content = device_;
    nodes_[device_].kinds = bit(Storage::device);
    unite_arguments();
    // Twice: what an integer in a loop is made of may stand behind it.
    for (int round = 0; round < 2; ++round) {
      for (const Block* block : function_.blocks) {
        for (Value* value : block->instructions) unite_operands(*value);
      }
    }
    unite_choices();
    make_regions();
    for (const Block* block : function_.blocks) {
      for (const Value* value : block->instructions) measure(*value);
    }
    for (const Value* object : objects_) {
      if (object->kind != ValueKind::global) continue;
      each_pointer(object->global->initial,
                   [&](const Value* pointer) { measure_constant(pointer); });
    }
    place_objects();
    answer();
  }

 private:
  using Node = uint32_t;
  static constexpr Node kNone = ~Node{0};
  struct State {
    Node parent;
    Node content = kNone;
    Region* region = nullptr;
    uint8_t kinds = 0;         // of the memory that it may be: bits 1 << Storage
    std::set<Node> members{};  // of one that may be of several kinds
  };
  static constexpr uint8_t bit(Storage storage) {
    return static_cast<uint8_t>(1U << static_cast<unsigned>(storage));
  }

  Node add() {
    nodes_.push_back({.parent = static_cast<Node>(nodes_.size())});
    return nodes_.back().parent;
  }
  Node root(Node n) {
    while (nodes_[n].parent != n) n = nodes_[n].parent = nodes_[nodes_[n].parent].parent;
    return n;
  }
  Node content(Node n) {
    n = root(n);
    if (nodes_[n].content == kNone) {
      const Node fresh = add();
      nodes_[n].content = fresh;
    }
    return root(nodes_[n].content);
  }
  void unite(Node a, Node b) {
    for (;;) {
      a = root(a);
      b = root(b);
      if (a == b) return;
      const Node of_a = nodes_[a].content;
      const Node of_b = nodes_[b].content;
      nodes_[a].parent = b;
      nodes_[b].kinds |= nodes_[a].kinds;
      nodes_[b].members.merge(nodes_[a].members);
      if (of_a == kNone) return;
      if (of_b == kNone) {
        nodes_[b].content = of_a;
        return;
      }
      a = of_a;
      b = of_b;
    }
  }
  // Pointers in what a variable begins with; null: nothing.
  static void each_pointer(const Value* initial, const std::function<void(const Value*)>& found) {
    if (initial == nullptr) return;
    if (initial->kind == ValueKind::aggregate) {
      for (const Value* element : initial->operands) each_pointer(element, found);
    } else if (points(*initial)) {
      found(initial);
    }
  }
  // Of a pointer, or an integer that may be one.
  Node node(const Value* value) {
    if (value->kind == ValueKind::expression && !value->operands.empty()) {
      for (const Value* operand : value->operands) {
        if (operand->kind == ValueKind::global || operand->kind == ValueKind::expression) {
          return node(operand);
        }
      }
    }
    const auto it = of_.find(value);
    if (it != of_.end()) return it->second;
    const Node made = add();
    of_[value] = made;
    if (value->kind == ValueKind::global && value->global != nullptr) {
      objects_.push_back(value);
      nodes_[made].kinds = bit(storage_of(*value));
      each_pointer(value->global->initial,
                   [&](const Value* pointer) { unite(content(made), node(pointer)); });
    }
    return made;
  }
  static bool points(const Value& value) {
    return value.type->is(TypeKind::pointer) &&
           (!value.is_constant() || value.kind == ValueKind::global ||
            value.kind == ValueKind::expression);
  }
  // Whether an integer may be a pointer's.
  bool is_tracked(const Value& value) {
    return points(value) ||
           (value.type->is_integer(64) && (of_.contains(&value) || names_variable(value)));
  }
  static bool names_variable(const Value& value) {
    return value.kind == ValueKind::global ||
           (value.kind == ValueKind::expression &&
            std::ranges::any_of(value.operands,
                                [](const Value* operand) { return names_variable(*operand); }));
  }

  void unite_arguments() {
    const size_t count = function_.arguments.size();
    for (size_t i = 0; i < count; ++i) {
      const Value* argument = function_.arguments[i];
      if (!argument->type->is(TypeKind::pointer)) continue;
      if (i + 1 < count) {
        unite(node(argument), device_);
      } else {
        nodes_[node(argument)].kinds = bit(Storage::parameters);
        parameters_ = argument;
        unite(content(node(argument)), device_);
      }
    }
  }

  void unite_operands(Value& value) {
    for (const Value* operand : value.operands) {
      if (points(*operand)) (void)node(operand);
    }
    switch (value.op) {
      case Opcode::alloca:
        if (variables_.insert(&value).second) {
          objects_.push_back(&value);
          nodes_[root(node(&value))].kinds |= bit(Storage::own);
        }
        break;
      case Opcode::gep: unite(node(&value), node(value.operands[0])); break;
      case Opcode::ptrtoint: unite(node(&value), node(value.operands[0])); break;
      case Opcode::inttoptr:
        unite(node(&value), is_tracked(*value.operands[0]) ? node(value.operands[0]) : device_);
        break;
      case Opcode::add:
      case Opcode::sub:
      case Opcode::bit_and:
      case Opcode::bit_or:
      case Opcode::freeze:
      case Opcode::bitcast:
        for (const Value* operand : value.operands) {
          if (is_tracked(*operand)) unite(node(&value), node(operand));
        }
        break;
      case Opcode::select:
      case Opcode::phi:
        if (value.type->is(TypeKind::pointer)) {
          (void)node(&value);
          if (variables_.insert(&value).second) choices_.push_back(&value);
          break;
        }
        for (const Value* operand : value.operands) {
          if (is_tracked(*operand)) unite(node(&value), node(operand));
        }
        break;
      case Opcode::load:
        if (value.type->is(TypeKind::pointer)) {
          unite(node(&value), content(node(value.operands[0])));
        }
        break;
      case Opcode::store:
        if (points(*value.operands[0])) {
          (void)content(node(value.operands[1]));
          if (variables_.insert(&value).second) stores_.push_back(&value);
        } else if (value.operands[0]->type->is_integer(64) && value.operands[0]->is(Opcode::load)) {
          // Structures with pointers in them are copied as integers.
          unite(content(node(value.operands[1])), content(node(value.operands[0]->operands[0])));
        }
        break;
      case Opcode::call:
        if (copies_memory(value)) {
          unite(content(node(value.operands[0])), content(node(value.operands[1])));
        } else if (value.type->is(TypeKind::pointer)) {
          const bool same = value.callee.starts_with("llvm.ptrmask") && !value.operands.empty();
          unite(node(&value), same ? node(value.operands[0]) : device_);
        }
        break;
      default: break;
    }
  }

  // Where pointers to such memory meet, as far as one place does it.
  [[noreturn]] void refuse_pointers(Node at, std::string message) {
    const auto is_it = [&](const Value* value) {
      return value->type->is(TypeKind::pointer) && root(node(value)) == at;
    };
    LocationId place = 0;
    for (const Block* block : function_.blocks) {
      for (const Value* value : block->instructions) {
        const bool meets = value->is(Opcode::store)
                               ? is_it(value->operands[0])
                               : (value->is(Opcode::phi) || value->is(Opcode::select) ||
                                  value->is(Opcode::load)) &&
                                     is_it(value);
        if (meets && value->location != 0 && place == 0) place = value->location;
      }
    }
    throw Refused{std::move(message), place};
  }
  void make_regions() {
    for (const Value* object : objects_) {
      const Node at = root(node(object));
      const bool is_global = object->kind == ValueKind::global;
      if (is_global && object->global->section == "llvm.metadata") continue;
      if (!nodes_[at].members.empty() ||
          (nodes_[at].kinds & (bit(Storage::device) | bit(Storage::parameters))) != 0) {
        refuse_pointers(at,
                        "a pointer may point to device memory and to a variable, in a way that "
                        "cannot be followed; use two pointers");
      }
      const Storage storage = storage_of(*object);
      Region*& region = nodes_[at].region;
      if (region == nullptr) {
        region = &result_.regions_.emplace_back();
        region->storage = storage;
      }
      if (region->storage != storage) {
        if (region->storage == Storage::threadgroup || storage == Storage::threadgroup) {
          refuse_pointers(at,
                          "a pointer may point to threadgroup memory and to a variable of the "
                          "thread, in a way that cannot be followed; use two pointers");
        }
        region->storage = Storage::own;  // a thread's own copy of what is constant is as good
      }
      region->objects.push_back(
          {const_cast<Value*>(object), is_global ? object->global->type : object->inner,
           is_global && storage != Storage::threadgroup ? object->global->initial : nullptr, 0});
    }
    if (parameters_ != nullptr) {
      Region& region = result_.regions_.emplace_back();
      region.storage = Storage::parameters;
      region.width = 4;
      region.unit = 1;
      nodes_[root(node(parameters_))].region = &region;
    }
    for (Node n = 0; n < nodes_.size(); ++n) {
      if (root(n) != n || nodes_[n].content == kNone) continue;
      Region* inside = nodes_[root(nodes_[n].content)].region;
      if (inside != nullptr) inside->null = 0;
    }
    make_mixed_regions();
  }
  void make_mixed_regions() {
    for (Node n = 0; n < nodes_.size(); ++n) {
      if (root(n) != n || nodes_[n].members.empty()) continue;
      Region& mixed = result_.regions_.emplace_back();
      mixed.storage = Storage::mixed;
      mixed.unit = 1;
      nodes_[n].region = &mixed;
      std::set<const Region*> seen;
      for (const Node member : nodes_[n].members) {
        if (root(member) == n) continue;
        Region* region = nodes_[root(member)].region;
        if (!seen.insert(region).second) continue;
        mixed.members.push_back(region);
        if (region == nullptr || region->tag != 0) continue;
        if (tags_ == kMostTags) {
          refuse_pointers(n,
                          "pointers may point to too many variables of several kinds; use fewer");
        }
        region->tag = ++tags_;
      }
    }
  }

  static Storage storage_of(const Value& object) {
    if (object.kind != ValueKind::global) return Storage::own;
    if (object.global->section == kThreadgroupSection) return Storage::threadgroup;
    return object.global->is_constant ? Storage::constant : Storage::own;
  }
  // Whether pointers of these kinds of memory can be told apart only by what they say themselves.
  static bool differ(uint8_t kinds) {
    constexpr uint8_t kPrivate = bit(Storage::own) | bit(Storage::constant);
    return std::popcount(static_cast<unsigned>(kinds & ~kPrivate)) +
               ((kinds & kPrivate) != 0 ? 1 : 0) >
           1;
  }
  // What may be chosen is one, where it is of one kind; else the choice is of several. What is
  // stored in one place is chosen by whoever loads it.
  void unite_choices() {
    for (bool changed = true; changed;) {
      changed = false;
      std::map<Node, std::vector<Node>> stored;
      for (const Value* store : stores_) {
        stored[content(node(store->operands[1]))].push_back(node(store->operands[0]));
      }
      for (const auto& [into, values] : stored) changed |= unite_choice(into, values);
      for (const Value* choice : choices_) {
        std::vector<Node> operands;
        for (const Value* operand : choice->operands) {
          if (points(*operand)) operands.push_back(node(operand));
        }
        changed |= unite_choice(node(choice), operands);
      }
      for (Node n = 0; n < nodes_.size(); ++n) changed |= unite_contents(n);
    }
  }
  // Whether anything changed.
  bool unite_choice(Node own, const std::vector<Node>& operands) {
    own = root(own);
    uint8_t kinds = nodes_[own].kinds;
    std::vector<Node> others;
    for (const Node operand : operands) {
      const Node other = root(operand);
      if (other == own) continue;
      others.push_back(other);
      kinds |= nodes_[other].kinds;
      if (!nodes_[other].members.empty()) kinds |= bit(Storage::mixed);
    }
    if (others.empty()) return false;
    const bool mixed = !nodes_[own].members.empty();
    // What device memory holds is device memory, or refused later.
    if ((!mixed && !differ(kinds)) || own == root(device_)) {
      for (const Node other : others) unite(own, other);
      return true;
    }
    // A choice that was one with memory before stays so, and is refused later.
    bool changed = false;
    for (const Node other : others) {
      if (!nodes_[other].members.empty()) {
        unite(own, other);
        changed = true;
      } else if (nodes_[root(own)].members.insert(other).second) {
        changed = true;
      }
    }
    if (!mixed && nodes_[root(own)].kinds != 0) nodes_[root(own)].kinds = 0;
    return changed;
  }
  // Pointers that are reached through a choice of several kinds are alike in all of them.
  bool unite_contents(Node n) {
    if (root(n) != n || nodes_[n].content == kNone) return false;
    bool changed = false;
    const std::vector<Node> members(nodes_[n].members.begin(), nodes_[n].members.end());
    for (const Node member : members) {
      const Node inside = content(member);
      if (root(member) == n || inside == content(n)) continue;
      unite(inside, content(n));
      changed = true;
    }
    return changed;
  }

  Region* region_of(const Value* pointer) {
    if (pointer->kind == ValueKind::zero || pointer->kind == ValueKind::undefined) return nullptr;
    const auto it = of_.find(pointer);
    const Node n = it != of_.end() ? it->second : node(pointer);
    return nodes_[root(n)].region;
  }

  static void step(Region& region, uint64_t bytes) {
    for (const Region* member : region.members) {
      if (member != nullptr) step(*const_cast<Region*>(member), bytes);
    }
    if (region.storage == Storage::mixed) return;
    region.unit = std::gcd(region.unit, low_bit(bytes));
  }
  // All that a constant address adds to the object's.
  void measure_constant(const Value* pointer) {
    if (pointer->kind != ValueKind::expression) return;
    if (Region* region = region_of(pointer); region != nullptr && pointer->op == Opcode::gep) {
      const Moves moves = moves_of(*pointer);
      step(*region, static_cast<uint64_t>(moves.bytes));
    }
    for (const Value* operand : pointer->operands) measure_constant(operand);
  }
  void access(const Value* pointer, const Type* type, uint64_t bytes, uint64_t align) {
    access_region(region_of(pointer), type, bytes, align);
  }
  void access_region(Region* region, const Type* type, uint64_t bytes, uint64_t align) {
    if (region == nullptr || region->storage == Storage::parameters) return;
    if (region->storage == Storage::mixed) {
      for (const Region* member : region->members) {
        access_region(const_cast<Region*>(member), type, bytes, align);
      }
      return;
    }
    region->width = std::min({region->width, bytes, align});
    region->is_accessed = true;
    if (type == nullptr) return;
    if (region->element == nullptr && !region->has_types) {
      region->element = type;
    } else if (region->element != type) {
      region->element = nullptr;
      region->has_types = true;
    }
  }
  void access_value(const Value* pointer, const Type* type, uint64_t align) {
    if (type->is(TypeKind::structure) || type->is(TypeKind::array)) {
      const size_t count =
          type->is(TypeKind::array) ? (type->count == 0 ? 0 : 1) : type->fields.size();
      for (size_t i = 0; i < count; ++i) {
        const Type* part = type->is(TypeKind::array) ? type->element : type->fields[i];
        access_value(pointer, part, std::min(align, align_of(*part)));
      }
      return;
    }
    if (type->is(TypeKind::vector)) {
      access(pointer, type->element, std::max<uint64_t>(size_of(*type->element), 1), align);
      return;
    }
    if (has_odd_width(*type)) return access(pointer, module_.integer(8), 1, 1);
    access(pointer, type, std::max<uint64_t>(size_of(*type), 1), align);
  }

  void measure(const Value& value) {
    for (const Value* operand : value.operands) {
      if (operand->kind == ValueKind::expression) measure_constant(operand);
    }
    switch (value.op) {
      case Opcode::load: access_value(value.operands[0], value.type, value.align); break;
      case Opcode::store:
        access_value(value.operands[1], value.operands[0]->type, value.align);
        break;
      case Opcode::gep:
        if (Region* region = region_of(&value)) {
          const Moves moves = moves_of(value);
          step(*region, static_cast<uint64_t>(moves.bytes));
          for (const Moves::Scaled& scaled : moves.scaled) {
            step(*region, low_bit(scaled.by) * divisor_of(*scaled.index));
          }
        }
        break;
      case Opcode::inttoptr:
        if (Region* region = region_of(&value)) step(*region, 4);
        break;
      case Opcode::call:
        if (copies_memory(value) || fills_memory(value)) {
          const uint64_t chunk = chunk_of(value);
          access(value.operands[0], nullptr, chunk, chunk);
          if (copies_memory(value)) access(value.operands[1], nullptr, chunk, chunk);
        } else {
          // Atomics are of words.
          const uint64_t bytes = value.callee.ends_with("64") ? 8 : 4;
          for (const Value* operand : value.operands) {
            if (operand->type->is(TypeKind::pointer) &&
                value.callee.starts_with("hf_spirv_atomic_")) {
              access(operand, module_.integer(static_cast<uint32_t>(bytes * 8)), bytes, bytes);
            }
          }
        }
        break;
      default: break;
    }
  }

  void place_objects() {
    for (Region& region : result_.regions_) {
      if (region.storage == Storage::parameters || region.storage == Storage::mixed) continue;
      region.width = std::bit_floor(std::max<uint64_t>(region.width, 1));
      uint64_t at = region.null == 0 ? 16 : 0;
      for (Region::Object& object : region.objects) {
        at = round_up<uint64_t>(at, 16);
        object.offset = at;
        at += size_of(*object.type);
      }
      region.size = round_up<uint64_t>(std::max<uint64_t>(at, 1), region.width);
      region.unit = std::gcd(region.unit, region.width);
      if (region.element != nullptr && size_of(*region.element) != region.width) {
        region.element = nullptr;
      }
    }
  }

  void answer() {
    std::vector<const Value*> values;
    for (const auto& [value, n] : of_) values.push_back(value);
    for (const Value* value : values) {
      const Node at = root(of_.at(value));
      if (nodes_[at].region != nullptr) result_.pointers_[value] = nodes_[at].region;
      if (nodes_[at].content == kNone) continue;
      const Node inside = root(nodes_[at].content);
      if (nodes_[inside].region != nullptr) result_.contents_[value] = nodes_[inside].region;
    }
  }

  Module& module_;
  Function& function_;
  Memory& result_;
  std::vector<State> nodes_;
  std::unordered_map<const Value*, Node> of_;
  std::vector<const Value*> objects_;
  std::set<const Value*> variables_;
  std::vector<const Value*> choices_;  // select and phi of pointers
  std::vector<const Value*> stores_;   // of pointers
  const Value* parameters_ = nullptr;
  uint32_t tags_ = 0;
  Node device_ = 0;
};

namespace {

// A constant address points where the variable in it is.
const Value* base_of(const Value* pointer) {
  while (pointer->kind == ValueKind::expression) {
    const auto it = std::ranges::find_if(pointer->operands, [](const Value* operand) {
      return operand->kind == ValueKind::global || operand->kind == ValueKind::expression;
    });
    if (it == pointer->operands.end()) break;
    pointer = *it;
  }
  return pointer;
}

}  // namespace

const Region* Memory::region_of(const Value* pointer) const {
  const auto it = pointers_.find(base_of(pointer));
  return it == pointers_.end() ? nullptr : it->second;
}

const Region* Memory::content_of(const Value* pointer) const {
  const auto it = contents_.find(base_of(pointer));
  return it == contents_.end() ? nullptr : it->second;
}

std::unique_ptr<Memory> Memory::of(Module& module, Function& function) {
  auto result = std::make_unique<Memory>();
  MemoryFinder(module, function, *result).run();
  return result;
}

}  // namespace holdfast::kernel::ir
