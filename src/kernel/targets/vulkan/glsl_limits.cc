#include "holdfast/kernel/targets/vulkan/glsl_limits.h"

#include <fmt/format.h>
#include <glslang/MachineIndependent/localintermediate.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::kernel {

namespace {

constexpr size_t kMaxStatementBytes = 32768;
constexpr size_t kMaxDirectiveBytes = 8192;
constexpr size_t kMaxStructs = 512;
constexpr size_t kMaxDepth = 2000;

using Nodes = std::vector<std::pair<TIntermNode*, size_t>>;

void push_children(TIntermNode* node, size_t depth, Nodes& to) {
  const auto push = [&](TIntermNode* child) {
    if (child != nullptr) to.emplace_back(child, depth);
  };
  if (auto* aggregate = node->getAsAggregate()) {
    for (TIntermNode* child : aggregate->getSequence()) push(child);
  } else if (auto* binary = node->getAsBinaryNode()) {
    push(binary->getLeft());
    push(binary->getRight());
  } else if (auto* unary = node->getAsUnaryNode()) {
    push(unary->getOperand());
  } else if (auto* selection = node->getAsSelectionNode()) {
    push(selection->getCondition());
    push(selection->getTrueBlock());
    push(selection->getFalseBlock());
  } else if (auto* choice = node->getAsSwitchNode()) {
    push(choice->getCondition());
    push(choice->getBody());
  } else if (auto* loop = node->getAsLoopNode()) {
    push(loop->getTest());
    push(loop->getTerminal());
    push(loop->getBody());
  } else if (auto* branch = node->getAsBranchNode()) {
    push(branch->getExpression());
  }
}

size_t skip_comment(std::string_view text, size_t at) {
  const bool block = text[at + 1] == '*';
  const size_t end = text.find(block ? "*/" : "\n", at + 2);
  if (end == std::string_view::npos) return text.size();
  return block ? end + 2 : end;
}

}  // namespace

std::optional<Diagnostic> too_long_to_parse(std::string_view text) {
  size_t line = 1;
  size_t statement = 0;  // bytes so far that are neither blanks nor comments
  size_t directive = 0;  // the same, while in_directive
  bool in_directive = false;
  bool line_is_empty = true;
  size_t structs = 0;
  const GlslLines lines(text);
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '/' && at + 1 < text.size() && (text[at + 1] == '/' || text[at + 1] == '*')) {
      const size_t end = skip_comment(text, at);
      for (; at < end; ++at) line += text[at] == '\n' ? 1U : 0U;
      --at;
      continue;
    }
    if (c == '\n') {
      ++line;
      const bool continued = at > 0 && text[at - 1] == '\\';
      if (!continued) {
        in_directive = false;
        line_is_empty = true;
      }
      continue;
    }
    if (c == ' ' || c == '\t' || c == '\r') continue;
    if (line_is_empty && c == '#') {
      in_directive = true;
      directive = 0;
    }
    line_is_empty = false;
    if (in_directive) {
      if (++directive > kMaxDirectiveBytes) {
        return lines.at_place(
            line,
            fmt::format("a directive of more than {} bytes; make it shorter", kMaxDirectiveBytes));
      }
      continue;
    }
    if (c == ';' || c == '{' || c == '}') {
      statement = 0;
    } else if (++statement > kMaxStatementBytes) {
      return lines.at_place(
          line, fmt::format("a statement of more than {} bytes; split it", kMaxStatementBytes));
    }
    if (text.substr(at).starts_with("struct") && ++structs > kMaxStructs) {
      return lines.at_place(line, fmt::format("more than {} structures", kMaxStructs));
    }
  }
  return {};
}

std::optional<Diagnostic> too_deep_to_translate(const glslang::TIntermediate& parsed,
                                                const GlslLines& lines) {
  Nodes pending;
  if (TIntermNode* root = parsed.getTreeRoot()) pending.emplace_back(root, 0);
  while (!pending.empty()) {
    const auto [node, depth] = pending.back();
    pending.pop_back();
    if (depth > kMaxDepth) {
      const glslang::TSourceLoc where = node->getLoc();
      return lines.at_number(static_cast<uint32_t>(std::max(where.line, 0)),
                             fmt::format("nested more than {} levels deep (each operand of a chain "
                                         "such as a + b + c is a level); use several statements",
                                         kMaxDepth),
                             std::to_string(where.string));
    }
    push_children(node, depth + 1, pending);
  }
  return {};
}

}  // namespace holdfast::kernel
