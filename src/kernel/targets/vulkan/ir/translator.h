#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "holdfast/kernel/targets/vulkan/ir/exchanged.h"
#include "holdfast/kernel/targets/vulkan/ir/ir.h"
#include "holdfast/kernel/targets/vulkan/ir/memory.h"
#include "holdfast/kernel/targets/vulkan/ir/refused.h"
#include "holdfast/kernel/targets/vulkan/ir/spirv_builder.h"
#include "holdfast/kernel/targets/vulkan/ir/structure.h"
#include "holdfast/kernel/targets/vulkan/ir/translate.h"

namespace holdfast::kernel::ir {

inline constexpr std::string_view kPointerInValue =
    "it passes a structure with a pointer to a variable in it as a value; pass the structure by "
    "reference";

// One function on its way to SPIR-V. Values are taken apart: a vector or a structure is its
// numbers, one after another, so that every SPIR-V value is a number, a truth or an address.
//
// A value that is used where its block does not come before in the nesting of steps has a variable;
// so has every phi. What is computed in a loop is therefore seen behind it through a variable that
// the loop's first block reads: lavapipe of Mesa 22 shows others what threads compute after
// they left.
class Translator {
 public:
  Translator(Module& module, Function& function, const Memory& memory, const Structure& structure,
             const TranslateOptions& options);
  // Throws Refused.
  SpirvWords run();

 private:
  SpirvWords translated();
  using Id = SpirvId;
  using Parts = std::vector<Id>;

  // ---- steps (translator.cc) ----
  using Scope = uint32_t;
  void find_scopes(const Steps& steps, Scope scope);
  void find_crossings(const Steps& steps, Scope scope);
  void used(const Value* value, Scope scope);
  bool is_within(Scope scope, Scope around) const;
  void emit(const Steps& steps);
  void emit_values(const std::vector<Value*>& values);
  void emit_when(Id condition, const Steps& inside, Scope scope);
  void emit_mask(const Step& step);
  Id mask_now(MaskId mask);
  void emit_pass(const Block& from, const Block& to);
  void emit_leave(Target target);
  void emit_loop(const Step& step);
  void begin_arguments();

  // ---- values (translate_values.cc) ----
  struct Scalar {
    const Type* type = nullptr;
    const Region* region = nullptr;  // of a pointer; null: device memory
  };
  std::vector<Scalar> scalars_of(const Value& value) const;
  static void add_scalars(const Type& type, std::vector<const Type*>& into);
  static uint32_t container(uint32_t bits);
  Id type_of(const Scalar& scalar);
  Id type_of(const Type& scalar) { return type_of(Scalar{&scalar, nullptr}); }
  Parts use(const Value* value);
  Id use_one(const Value* value);
  // As a pointer into the region, whatever is known of the value itself.
  Id use_pointer(const Value* value, const Region* region);
  void define(const Value& value, Parts parts);
  void define(const Value& value, Id part) { define(value, Parts{part}); }
  Parts constant(const Value& value);
  Id number(const Type& type, uint64_t bits);
  Id make(spv::Op op, Id type, std::initializer_list<Id> operands);
  Id glsl(uint32_t function, Id type, std::initializer_list<Id> operands);
  void put(spv::Op op, std::initializer_list<uint32_t> operands) {
    SpirvBuilder::put(code_, op, operands);
  }
  Id local(Id type);  // a variable of the function
  [[noreturn]] void refuse(std::string message) const;

  // ---- memory (translate_memory.cc) ----
  void declare_regions();
  Id initial_of(const Region& region, Id element, uint64_t count);
  void flatten(const Value& value, std::vector<uint8_t>& bytes, uint64_t at) const;
  // Of a constant address, as it lies in memory.
  uint64_t constant_pointer(const Value& value) const;
  bool is_device(const Region* region) const;
  bool is_wide(const Region* region) const;  // whether its pointers are 64-bit numbers
  Id as_mixed(Id pointer, const Region* from);
  // Calls it for each member of the region, where the pointer is that member's.
  void each_member(Id pointer, const Region& mixed,
                   const std::function<void(Id, const Region*)>& access);
  Id moved(Id pointer, const Region* region, int64_t bytes);
  Id device_pointer(Id address, Id type, bool is_volatile);
  Id load_number(Id pointer, const Region* region, const Type& type, uint64_t align,
                 bool is_volatile);
  void store_number(Id pointer, const Region* region, const Type& type, Id value, uint64_t align,
                    bool is_volatile);
  Id push_constants() { return spirv_.push_constants(push_addresses_, push_words_); }
  Id load_parameter(Id pointer, const Type& type);
  Id element_pointer(Id pointer, const Region& region, uint64_t index);
  void refuse_pointers_in(const std::vector<std::pair<uint64_t, const Type*>>& numbers,
                          const Value* at) const;
  void load(const Value& value);
  Parts load_from(const Value& value, const Value* from);
  void store(const Value& value);
  void gep(const Value& value);
  void copy_memory(const Value& call);
  void fill_memory(const Value& call);
  // A pointer for an atomic operation on a word.
  Id word_pointer(const Value* pointer, uint32_t bits);
  void numbers_in(const Type& type, uint64_t at,
                  std::vector<std::pair<uint64_t, const Type*>>& into) const;
  Id to_bits(Id value, const Type& type);
  Id from_bits(Id bits, const Type& type);

  // ---- instructions (translate_instructions.cc) ----
  void instruction(const Value& value);
  void each_part(const Value& value);
  Id binary(const Value& value, const Type& type, Id a, Id b);
  void keep_apart(Id id);
  Id quotient(const Type& type, Id a, Id b);
  Id square_root(const Type& type, Id value);
  bool can_fuse(const Type& type) const;
  Id fused(const Type& type, Id a, Id b, Id c);
  Id fused_sum(const Value& sum, const Type& type, Id left, Id right, size_t part);
  Id binary_of_truths(Opcode op, Id a, Id b);
  Id compare_integers(Predicate predicate, const Type& type, Id a, Id b);
  Id compare_floats(Predicate predicate, const Type& type, Id a, Id b);
  Id is_nan(const Type& type, Id value);
  Id cast(const Value& value, const Type& from, const Type& to, Id id);
  Id rounded_to_odd(Id value);
  void cast_pointer(const Value& value);
  void compare_pointers(const Value& value);
  void bitcast(const Value& value);
  Id cut(const Type& type, Id id);        // to the bits that the type has
  Id as_signed(const Type& type, Id id);  // the sign in all bits above
  Id convert(Id id, uint32_t from, uint32_t to, bool with_sign);
  void element(const Value& value);

  // ---- calls (translate_calls.cc, _checks.cc, _meetings.cc, _integers.cc, _floats.cc) ----
  void call(const Value& value);
  bool call_of_check(const Value& value);
  Id number_of_text(const Value* pointer);
  bool call_of_place(const Value& value);
  bool call_of_meeting(const Value& value);
  bool call_of_subgroup(const Value& value);
  Id group_threads();
  void meet();
  void fence();
  void declare_exchange();
  Id exchange_place(Id array, Id index);
  Id any_of_group(Id truth);
  bool call_of_atomic(const Value& value);
  bool call_of_integers(const Value& value, std::string_view name);
  bool call_of_floats(const Value& value, std::string_view name);
  bool call_of_reduction(const Value& value, std::string_view name);
  void call_by_element(const Value& value);
  Id count_bits(const Type& type, Id value);
  Id leading_zeros(const Type& type, Id value);
  Id trailing_zeros(const Type& type, Id value);
  Id reversed_bits(const Type& type, Id value);
  Id reversed_bytes(const Type& type, Id value);
  Id funnel(const Type& type, Id high, Id low, Id by, bool left);
  Id float_number(const Type& type, double value);
  Id input_part(spv::BuiltIn what, uint32_t axis);
  Id input_part(spv::BuiltIn what, const Value* axis);

  Module& module_;
  Function& function_;
  const Memory& memory_;
  const Structure& structure_;
  const TranslateOptions& options_;
  SpirvBuilder spirv_;
  SpirvWords variables_;
  SpirvWords code_;
  Exchanged exchanged_;
  bool pushed_ = false;  // the arguments are push constants
  uint32_t push_addresses_ = 0;
  uint32_t push_words_ = 0;
  Id arguments_ = 0;  // where they are not pushed: their address
  Id report_ = 0;     // the report's address

  std::vector<Scope> parents_{0};
  std::unordered_map<const Value*, Scope> scope_of_;
  std::unordered_map<const Step*, std::pair<Scope, Scope>> scopes_of_;
  Scope scope_ = 0;
  std::unordered_set<const Value*> crossing_;
  std::unordered_map<const Value*, std::vector<Id>> variable_of_;  // of crossing values
  std::unordered_map<const Value*, std::vector<Id>> passed_to_;    // of phis: what they become
  std::unordered_map<const Value*, Parts> parts_of_;
  std::vector<LoopId> around_;
  std::vector<Id> stays_;      // by loop
  std::vector<Id> selectors_;  // variables
  std::vector<Id> masks_;      // variables, by mask; kAll has none
  MaskId mask_ = kAll;         // of the meeting that is emitted
  Id votes_ = 0;               // a word of the group
  Id fence_ = 0;               // another
  Id words_ = 0;               // one of each thread
  Id there_ = 0;               // whether it takes part
  Id next_ = 0;                // a variable: where the path wants to go
  std::unordered_map<const Region*, Id> region_variables_;
  std::unordered_map<const Value*, uint64_t> offsets_;
  std::unordered_map<const Region*, uint32_t> first_numbers_;  // of texts
  uint32_t next_number_ = 1;
  const Value* here_ = nullptr;
};

}  // namespace holdfast::kernel::ir
