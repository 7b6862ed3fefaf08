#pragma once

#include <map>
#include <set>
#include <vector>

#include "holdfast/base/error.h"
#include "holdfast/kernel/targets/vulkan/ir/ir.h"

namespace holdfast::kernel::ir {

// A function's control flow as steps that are nested: choices, loops that are left where they
// begin, and steps that wait for their turn. Any flow has such a form; where it has the shape of
// plain statements, the form has that shape as well.
//
// A path that cannot go on where the next step stands says where it wants to go (Step::leave): to a
// step of Kind::guarded further on, which only paths that want to go there take, out of loops, or
// to the next round of one.

// Where a path wants to go.
using Target = uint32_t;
inline constexpr Target kReturn = ~Target{0};
using LoopId = uint32_t;
// Which threads take part.
using MaskId = uint32_t;
inline constexpr MaskId kAll = 0;

struct Step;
using Steps = std::vector<Step>;

// What a choice asks: whether a value is true, or whether a selector has a number. Selectors are
// variables of the form itself: which of several ways into a loop a path took.
struct Question {
  Value* value = nullptr;
  uint32_t selector = 0;
  uint32_t number = 0;
};

struct Step {
  enum class Kind : uint8_t {
    block,    // the block's instructions, without phis and end
    pass,     // from a block to another: phis of `to` get their values
    select,   // the selector becomes the number
    leave,    // the path wants to go to `target`
    choice,   // `inside` where the question is answered with yes, else `otherwise`
    guarded,  // `inside`, for paths that want to go to `target`
    loop,     // `inside`, again as long as paths want to go to its begin
    // Of masks(): threads that take part in what follows are those whose mask is true.
    part,       // some instructions of a block
    active,     // `inside`, for threads of the mask
    meet,       // the call `value`, which all threads come to, for those of the mask
    mask_yes,   // `into`: the threads of `mask` that answer the question with yes
    mask_no,    // with no
    mask_next,  // that want to go to `target`
    mask_stay,  // of those that stay in the loop
  };
  Kind kind = Kind::block;
  Block* block = nullptr;  // of block; where pass comes from
  Block* to = nullptr;
  Question question{};
  Target target = 0;
  LoopId loop = 0;
  bool votes = false;  // of a loop: all go round as long as one of them stays
  MaskId mask = kAll;
  MaskId into = kAll;
  Value* value = nullptr;
  std::vector<Value*> values{};  // of part
  Steps inside{};
  Steps otherwise{};
};

struct Structure {
  Steps steps{};
  // By loop: where its rounds begin, and all targets that are inside it.
  struct Loop {
    Target begin = 0;
    std::set<Target> inside{};
  };
  std::vector<Loop> loops{};
  uint32_t selectors = 0;
  uint32_t masks = 0;  // besides kAll
  bool has_guards = false;
};

// Adds comparisons to blocks that end in a switch. ErrorCode::unsupported where statements are
// nested more deeply than SPIR-V allows. Time grows with blocks and their nesting.
Result<Structure> structure(Module& module, Function& function);

}  // namespace holdfast::kernel::ir
