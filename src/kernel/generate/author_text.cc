#include <fmt/format.h>

#include <utility>

#include "holdfast/base/hash.h"
#include "holdfast/kernel/generate/literals.h"
#include "holdfast/kernel/generate/usage.h"

namespace holdfast::kernel {
namespace {

constexpr std::string_view kThreadgroup = "threadgroup";
constexpr std::string_view kMarker = "hf_tg_local";
static_assert(kThreadgroup.size() == kMarker.size());
// After the marker alignas would apply to the type, which compilers refuse.
constexpr std::string_view kAlignas = "alignas";
constexpr std::string_view kAlignment = "hf_algn";
static_assert(kAlignas.size() == kAlignment.size());
constexpr std::string_view kConstant = "constant";
constexpr std::string_view kConst = "hf_const";
static_assert(kConstant.size() == kConst.size());
constexpr std::string_view kBfloatMark = "ms";
// No such name: the compiler's message is the sentence.
constexpr std::string_view kPointerThroughMacro =
    "hf_error_a_macro_with_threadgroup_memory_cannot_declare_a_pointer";

// What `threadgroup` does at a place. Open: the text of a macro ends before it is known.
enum class Reading : uint8_t { memory, qualifier, open };

// The closing bracket's index, or the last token's.
size_t end_of_parentheses(const std::vector<Token>& tokens, size_t at) {
  int depth = 0;
  for (; at + 1 < tokens.size(); ++at) {
    if (tokens[at].text == "(") ++depth;
    if (tokens[at].text == ")" && --depth == 0) break;
  }
  return at;
}

// Of the declaration whose specifiers go on after tokens[at]. It is known not to be in parentheses.
Reading reading_of(const std::vector<Token>& tokens, size_t at) {
  if (at > 0 && tokens[at - 1].text == "<") return Reading::qualifier;  // a template argument
  int angles = 0;
  for (size_t i = at + 1; i < tokens.size(); ++i) {
    const std::string_view text = tokens[i].text;
    if (tokens[at].in_directive) {
      if (!tokens[i].in_directive || text == "#") return Reading::open;
    } else if (tokens[i].in_directive) {
      continue;
    }
    if (text == "(") {
      // `float (*p)[4]`; otherwise a macro or a type with arguments.
      if (angles == 0 && i + 1 < tokens.size() &&
          (tokens[i + 1].text == "*" || tokens[i + 1].text == "&")) {
        return Reading::qualifier;
      }
      i = end_of_parentheses(tokens, i);
    } else if (text == "<") {
      const bool shift = angles > 0 && i + 1 < tokens.size() && tokens[i + 1].text == "<";
      if (shift) {
        ++i;
      } else {
        ++angles;
      }
    } else if (text == ">") {
      if (angles == 0) return Reading::qualifier;
      --angles;
    } else if (angles > 0) {
      continue;
    } else if (text == "*" || text == "&" || text == ")") {
      return Reading::qualifier;
    } else if (text == ";" || text == "[" || text == "=" || text == "{" || text == "," ||
               text == "}") {
      return Reading::memory;
    }
  }
  return Reading::open;
}

// Whether an argument of a macro ends like a pointer's type.
bool has_pointer_argument(const std::vector<Token>& tokens, size_t open) {
  const size_t end = end_of_parentheses(tokens, open);
  for (size_t i = open + 1; i <= end; ++i) {
    if (tokens[i].text != "," && tokens[i].text != ")") continue;
    if (tokens[i - 1].text == "*" || tokens[i - 1].text == "&") return true;
  }
  return false;
}

// Whether each token stands in parentheses or square brackets: those of a directive are its own.
std::vector<bool> bracketed(const std::vector<Token>& tokens) {
  std::vector<bool> result(tokens.size());
  std::string outside;
  std::string directive;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string_view token = tokens[i].text;
    if (tokens[i].in_directive && token == "#") directive.clear();
    std::string& open = tokens[i].in_directive ? directive : outside;
    if (token == ")" || token == "]" || token == "}") {
      if (!open.empty()) open.pop_back();
    }
    result[i] = !open.empty() && open.back() != '{';
    if (token == "(" || token == "[" || token == "{") open.push_back(token[0]);
  }
  return result;
}

// Whether `const` stands beside tokens[at] among the words of the same declaration.
bool has_const_beside(const std::vector<Token>& tokens, size_t at) {
  const auto is_word = [&](size_t i) {
    return tokens[i].kind == TokenKind::identifier &&
           tokens[i].in_directive == tokens[at].in_directive;
  };
  for (size_t i = at; i-- > 0 && is_word(i);) {
    if (tokens[i].text == "const") return true;
  }
  for (size_t i = at + 1; i < tokens.size() && is_word(i); ++i) {
    if (tokens[i].text == "const") return true;
  }
  return false;
}

void blank_metal_includes(std::string& text) {
  const std::string original = text;
  const std::vector<Token> tokens = tokenize(original);
  for (size_t i = 0; i + 3 < tokens.size(); ++i) {
    if (!tokens[i].in_directive || tokens[i].text != "#") continue;
    if (tokens[i + 1].text != "include" || tokens[i + 2].text != "<") continue;
    const std::string_view header = tokens[i + 3].text;
    if (!header.starts_with("metal") && header != "simd") continue;
    size_t last = i;
    while (last + 1 < tokens.size() && tokens[last + 1].in_directive &&
           tokens[last + 1].text != "#") {
      ++last;
    }
    const size_t end = tokens[last].offset + tokens[last].text.size();
    for (size_t at = tokens[i].offset; at < end; ++at) {
      if (text[at] != '\n') text[at] = ' ';
    }
  }
}

// As compilers print it, so that their messages can be matched: control characters cannot appear.
std::string as_compilers_print(std::string_view file) {
  std::string result(file);
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return result;
}

std::string value_text(const ConstantValue& value) {
  if (const bool* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  const int64_t number = std::get<int64_t>(value);
  if (number == INT64_MIN) return "(-9223372036854775807L - 1)";
  const std::string_view suffix =
      number >= INT32_MIN + int64_t{1} && number <= INT32_MAX ? "" : "L";
  return number < 0 ? fmt::format("({}{})", number, suffix) : fmt::format("{}{}", number, suffix);
}

const char* type_of(const ConstantValue& value) {
  if (std::holds_alternative<bool>(value)) return "bool";
  const int64_t number = std::get<int64_t>(value);
  return number >= INT32_MIN && number <= INT32_MAX ? "int" : "long";
}

}  // namespace

ThreadgroupMacros threadgroup_macros(std::string_view text, ThreadgroupMacros known) {
  const std::vector<Token> tokens = tokenize(text);
  const std::vector<bool> inner = bracketed(tokens);
  for (size_t i = 0; i + 2 < tokens.size(); ++i) {
    if (!tokens[i].in_directive || tokens[i].text != "#" || tokens[i + 1].text != "define")
      continue;
    const Token& name = tokens[i + 2];
    ThreadgroupMacro macro;
    size_t begin = i + 3;
    macro.has_arguments = begin < tokens.size() && tokens[begin].in_directive &&
                          tokens[begin].text == "(" &&
                          tokens[begin].offset == name.offset + name.text.size();
    if (macro.has_arguments) begin = end_of_parentheses(tokens, begin) + 1;
    size_t end = begin;
    while (end < tokens.size() && tokens[end].in_directive && tokens[end].text != "#") ++end;
    for (size_t at = begin; at < end; ++at) {
      const auto other = known.find(tokens[at].text);
      if (tokens[at].text != kThreadgroup && other == known.end()) continue;
      if (inner[at] || reading_of(tokens, at) != Reading::open) continue;
      macro.bare =
          !macro.has_arguments && end == begin + 1 && (other == known.end() || other->second.bare);
      known.insert_or_assign(std::string(name.text), macro);
      break;
    }
  }
  return known;
}

std::string mark_threadgroup_memory(std::string_view text, const ThreadgroupMacros& macros) {
  std::string result;
  size_t copied = 0;
  const auto replace = [&](const Token& token, std::string_view with) {
    result += text.substr(copied, token.offset - copied);
    result += with;
    copied = token.offset + token.text.size();
  };
  const std::vector<Token> tokens = tokenize(text);
  const std::vector<bool> inner = bracketed(tokens);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    if (token.member || token.kind != TokenKind::identifier) continue;
    if (token.text == kThreadgroup) {
      if (inner[i]) continue;
      const Reading reading = reading_of(tokens, i);
      // At the end of the text it stands for nothing.
      if (reading == Reading::qualifier || (reading == Reading::open && !token.in_directive)) {
        continue;
      }
      replace(token, kMarker);
      if (i + 1 < tokens.size() && tokens[i + 1].text == kAlignas) replace(tokens[++i], kAlignment);
      continue;
    }
    const auto macro = macros.find(token.text);
    if (macro == macros.end()) continue;
    if (i > 0 && token.in_directive && tokens[i - 1].in_directive &&
        (tokens[i - 1].text == "define" || tokens[i - 1].text == "undef" ||
         tokens[i - 1].text == "ifdef" || tokens[i - 1].text == "ifndef" ||
         tokens[i - 1].text == "defined")) {
      continue;
    }
    const bool called =
        macro->second.has_arguments && i + 1 < tokens.size() && tokens[i + 1].text == "(";
    const bool qualifies =
        inner[i] || (called && has_pointer_argument(tokens, i + 1)) ||
        reading_of(tokens, called ? end_of_parentheses(tokens, i + 1) : i) == Reading::qualifier;
    if (!qualifies) continue;
    replace(token, macro->second.bare ? std::string(token.text.size(), ' ')
                                      : std::string(kPointerThroughMacro));
  }
  result += text.substr(copied);
  return result;
}

std::string mark_constants(std::string_view text) {
  std::string result(text);
  const std::vector<Token> tokens = tokenize(text);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].text != kConstant || tokens[i].member || has_const_beside(tokens, i)) continue;
    result.replace(tokens[i].offset, kConstant.size(), kConst);
  }
  return result;
}

std::string mark_bfloat_literals(std::string_view text) {
  std::string result(text);
  for (const Token& token : tokenize(text)) {
    if (!is_bfloat_literal(token)) continue;
    result.replace(token.offset + token.text.size() - kBfloatMark.size(), kBfloatMark.size(),
                   kBfloatMark);
  }
  return result;
}

std::string author_text(std::string_view text, const ThreadgroupMacros& macros) {
  std::string result = mark_bfloat_literals(mark_constants(mark_threadgroup_memory(text, macros)));
  blank_metal_includes(result);
  if (result.empty()) return result;
  if (result.back() != '\n') result.push_back('\n');
  // A continued last line must not take in what follows.
  if (result.ends_with("\\\n")) result.push_back('\n');
  return result;
}

std::string body_file(const Definition& definition) {
  return as_compilers_print(definition.file.empty() ? definition.name : definition.file);
}

std::string header_file(const Definition& definition) {
  return as_compilers_print(definition.name + ".header");
}

std::string line_directive(uint32_t line, std::string_view file) {
  std::string quoted;
  for (const char c : as_compilers_print(file)) {
    if (c == '"' || c == '\\') quoted.push_back('\\');
    quoted.push_back(c);
  }
  return fmt::format("#line {} \"{}\"\n", line, quoted);
}

std::string constant_declarations(const Usage& usage, const CallSignature& signature) {
  std::string text;
  for (const Constant& constant : signature.constants) {
    if (usage.header_macro_constants.contains(constant.name)) continue;
    if (const Dtype* dtype = std::get_if<Dtype>(&constant.value)) {
      text += fmt::format("using {} = {};\n", constant.name, kernel_type(*dtype));
    } else {
      text += fmt::format("constexpr {} {} = {};\n", type_of(constant.value), constant.name,
                          value_text(constant.value));
    }
  }
  return text;
}

namespace {

std::string suffixed_text(std::string_view text, const Usage& usage) {
  const std::string marked = author_text(text, usage.threadgroup_macros);
  return with_suffixes(marked, unsuffixed_literals(marked, usage.pasting_macros));
}

}  // namespace

std::string authors_header(const Definition& definition, const Usage& usage) {
  if (definition.header.empty()) return {};
  return line_directive(1, header_file(definition)) + suffixed_text(definition.header, usage) +
         line_directive(1, "holdfast");
}

std::string authors_body(const Definition& definition, const Usage& usage) {
  return line_directive(1, body_file(definition)) + suffixed_text(definition.source, usage) +
         line_directive(1, "holdfast");
}

std::string math_macro(MathMode math) {
  if (math != MathMode::fast) return {};
  return "#ifndef __FAST_MATH__\n#define __FAST_MATH__ 1\n#endif\n";
}

std::string constant_macros(const Usage& usage, const CallSignature& signature,
                            bool before_header) {
  std::string text;
  for (const Constant& constant : signature.constants) {
    if (!usage.macro_constants.contains(constant.name)) continue;
    if (usage.header_macro_constants.contains(constant.name) != before_header) continue;
    text += fmt::format("#define {} {}\n", constant.name, value_text(constant.value));
  }
  return text;
}

std::string macro_removals(const Definition& definition, const Usage& usage) {
  std::set<std::string, std::less<>> names = usage.macro_constants;
  for (const std::string& text : {definition.header, definition.source}) {
    const std::vector<Token> tokens = tokenize(text);
    for (size_t i = 0; i + 2 < tokens.size(); ++i) {
      if (!tokens[i].in_directive || tokens[i].text != "#" || tokens[i + 1].text != "define")
        continue;
      if (tokens[i + 2].kind == TokenKind::identifier) names.emplace(tokens[i + 2].text);
    }
  }
  std::string removals;
  for (const std::string& name : names) removals += fmt::format("#undef {}\n", name);
  return removals;
}

std::string entry_point_of(const Definition& definition, std::string_view text) {
  const std::string digest = to_string(Hasher().add(definition.name).add(text).digest());
  return fmt::format("hf_{}_{}", definition.name, digest.substr(0, 16));
}

std::string element_type(const ArgumentUse& argument) {
  const char* type = kernel_type(argument.type.dtype);
  return argument.atomic ? fmt::format("atomic<{}>", type) : type;
}

bool is_restricted(const ArgumentUse& argument, const Usage& usage) {
  return argument.binding.group == ArgumentGroup::input ||
         (usage.cooperation != Cooperation::barriers && !usage.uses("atomic_thread_fence"));
}

std::string place_expression(std::string_view place) {
  constexpr std::pair<std::string_view, std::string_view> kExpressions[] = {
      {"thread_position_in_grid", "uint3(hf_x, hf_y, hf_z)"},
      {"threads_per_grid", "uint3(hf_l.grid[0], hf_l.grid[1], hf_l.grid[2])"},
      {"grid_size", "uint3(hf_l.grid[0], hf_l.grid[1], hf_l.grid[2])"},
      {"grid_origin", "uint3(0, 0, 0)"},
      {"threadgroups_per_grid",
       "uint3(hf_groups(hf_l, 0), hf_groups(hf_l, 1), hf_groups(hf_l, 2))"},
      {"dispatch_threads_per_threadgroup", "uint3(hf_l.group[0], hf_l.group[1], hf_l.group[2])"},
      {"dispatch_simdgroups_per_threadgroup",
       "(hf_l.group[0] * hf_l.group[1] * hf_l.group[2] + 31) / 32"},
      {"threads_per_simdgroup", "32u"},
      {"thread_execution_width", "32u"},
      {"thread_position_in_threadgroup",
       "uint3(hf_x - hf_g.at[0], hf_y - hf_g.at[1], hf_z - hf_g.at[2])"},
      {"threadgroup_position_in_grid",
       "uint3(hf_g.position[0], hf_g.position[1], hf_g.position[2])"},
      {"threads_per_threadgroup", "uint3(hf_g.size[0], hf_g.size[1], hf_g.size[2])"},
      {"simdgroups_per_threadgroup", "(hf_g.threads + 31) / 32"},
      {"thread_index_in_threadgroup", "hf_i"},
      {"thread_index_in_simdgroup", "hf_i % 32"},
      {"simdgroup_index_in_threadgroup", "hf_i / 32"},
      {"quadgroups_per_threadgroup", "(hf_g.threads + 3) / 4"},
      {"thread_index_in_quadgroup", "hf_i % 4"},
      {"quadgroup_index_in_threadgroup", "hf_i / 4"},
  };
  for (const auto& [name, expression] : kExpressions) {
    if (name == place) return std::string(expression);
  }
  return "0";
}

}  // namespace holdfast::kernel
