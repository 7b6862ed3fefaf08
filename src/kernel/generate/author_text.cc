#include <fmt/format.h>

#include <utility>

#include "holdfast/base/hash.h"
#include "holdfast/kernel/generate/usage.h"

namespace holdfast::kernel {
namespace {

constexpr std::string_view kThreadgroup = "threadgroup";
constexpr std::string_view kMarker = "hf_tg_local";
static_assert(kThreadgroup.size() == kMarker.size());

// Whether the declaration whose specifiers follow tokens[at], which is `threadgroup`, declares
// memory. It is known not to be in parentheses.
bool declares_memory(const std::vector<Token>& tokens, size_t at) {
  if (at > 0 && tokens[at - 1].text == "<") return false;  // a template argument
  bool named = false;
  int angles = 0;
  for (size_t i = at + 1; i < tokens.size(); ++i) {
    if (tokens[at].in_directive && !tokens[i].in_directive) return false;
    const std::string_view text = tokens[i].text;
    if (text == "<") {
      ++angles;
    } else if (text == ">") {
      if (angles == 0) return false;
      --angles;
    } else if (angles > 0) {
      continue;
    } else if (text == "*" || text == "&" || text == ")") {
      return false;
    } else if (text == "(") {
      // `float (*p)[4]`; otherwise a macro or a type with arguments.
      if (i + 1 < tokens.size() && (tokens[i + 1].text == "*" || tokens[i + 1].text == "&")) {
        return false;
      }
      int depth = 0;
      for (; i < tokens.size(); ++i) {
        if (tokens[i].text == "(") ++depth;
        if (tokens[i].text == ")" && --depth == 0) break;
      }
    } else if (text == ";" || text == "[" || text == "=" || text == "{" || text == ",") {
      return named;
    } else if (tokens[i].kind == TokenKind::identifier) {
      named = true;
    }
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
std::string printable(std::string_view file) {
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

std::string mark_threadgroup_memory(std::string_view text) {
  std::string result(text);
  const std::vector<Token> tokens = tokenize(text);
  std::string open;  // brackets around the current token
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string_view token = tokens[i].text;
    if (token == "(" || token == "[" || token == "{") {
      open.push_back(token[0]);
    } else if (token == ")" || token == "]" || token == "}") {
      if (!open.empty()) open.pop_back();
    } else if (token == kThreadgroup && !tokens[i].member && (open.empty() || open.back() == '{') &&
               declares_memory(tokens, i)) {
      result.replace(tokens[i].offset, kThreadgroup.size(), kMarker);
    }
  }
  return result;
}

std::string author_text(std::string_view text) {
  std::string result = mark_threadgroup_memory(text);
  blank_metal_includes(result);
  if (result.empty()) return result;
  if (result.back() != '\n') result.push_back('\n');
  // A continued last line must not take in what follows.
  if (result.ends_with("\\\n")) result.push_back('\n');
  return result;
}

std::string body_file(const Definition& definition) {
  return printable(definition.file.empty() ? definition.name : definition.file);
}

std::string header_file(const Definition& definition) {
  return printable(definition.name + ".header");
}

std::string line_directive(uint32_t line, std::string_view file) {
  std::string quoted;
  for (const char c : printable(file)) {
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
  };
  for (const auto& [name, expression] : kExpressions) {
    if (name == place) return std::string(expression);
  }
  return "0";
}

}  // namespace holdfast::kernel
