#include "holdfast/kernel/targets/vulkan/glsl_compiler.h"

#include <fmt/format.h>
#include <glslang/Public/ResourceLimits.h>
#include <glslang/Public/ShaderLang.h>
#include <glslang/SPIRV/GlslangToSpv.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>

#include "holdfast/kernel/definition.h"
#include "holdfast/kernel/targets/vulkan/glsl_diagnostics.h"
#include "holdfast/kernel/targets/vulkan/glsl_limits.h"

namespace holdfast::kernel {

namespace {

constexpr int kDefaultVersion = 460;
constexpr auto kMessages =
    static_cast<EShMessages>(EShMsgSpvRules | EShMsgVulkanRules | EShMsgSuppressWarnings);

Failure check_defines(const GlslSource& source) {
  std::set<std::string_view> names;
  for (const auto& [name, value] : source.defines) {
    const auto refuse = [&](std::string_view why) {
      return Failure(ErrorCode::usage,
                     fmt::format("kernel '{}' was given the define '{}', {}", source.name,
                                 name.substr(0, name.find('\0')), why));
    };
    if (!is_identifier(name)) return refuse("which is no identifier; rename it");
    if (!names.insert(name).second) return refuse("which it was given before; give it once");
    if (value.find_first_of(std::string_view("\n\r\\\0", 4)) != std::string::npos) {
      return refuse("whose replacement has a line break, a backslash or a zero; use one line");
    }
    if (value.find("/*") != std::string::npos || value.find("//") != std::string::npos) {
      return refuse("whose replacement has a comment; leave it out");
    }
  }
  return {};
}

// A shader of one text, with the defines before its first line.
class Shader {
 public:
  explicit Shader(const GlslSource& source) {
    for (const auto& [name, value] : source.defines) {
      fmt::format_to(std::back_inserter(preamble_), "#define {} {}\n", name, value);
    }
    shader_.setStringsWithLengths(&text_, &length_, 1);
    shader_.setPreamble(preamble_.c_str());
    shader_.setEnvInput(glslang::EShSourceGlsl, EShLangCompute, glslang::EShClientVulkan, 100);
    shader_.setEnvClient(glslang::EShClientVulkan, glslang::EShTargetVulkan_1_2);
    shader_.setEnvTarget(glslang::EShTargetSpv, glslang::EShTargetSpv_1_5);
    text_ = source.text.data();
    length_ = static_cast<int>(source.text.size());
  }
  Shader(const Shader&) = delete;
  Shader& operator=(const Shader&) = delete;

  bool parse() { return shader_.parse(GetDefaultResources(), kDefaultVersion, false, kMessages); }
  // The text with its macros expanded; none where the preprocessor refuses it.
  std::optional<std::string> expand() {
    std::string result;
    glslang::TShader::ForbidIncluder includer;
    if (!shader_.preprocess(GetDefaultResources(), kDefaultVersion, ENoProfile, false, false,
                            kMessages, &result, includer)) {
      return {};
    }
    return result;
  }
  glslang::TShader& get() { return shader_; }
  std::string_view log() { return shader_.getInfoLog(); }

 private:
  // The shader points at these.
  std::string preamble_;
  const char* text_ = nullptr;
  int length_ = 0;
  glslang::TShader shader_{EShLangCompute};
};

// Whether macros may make the text longer than it looks.
bool may_grow(const GlslSource& source) {
  return source.text.find("define") != std::string::npos ||
         std::ranges::any_of(source.defines, [](const auto& define) {
           return define.second.find_first_of(" \t+-*/%,.()?&|^~!<>=") != std::string::npos;
         });
}

class Compilation {
 public:
  explicit Compilation(const GlslSource& source) : source_(source) {}

  Result<hal::SpirvModule> run() {
    if (auto found = too_long_to_parse(source_.text)) return failure({*found});
    // Costs as much as parsing, so only where it can tell anything.
    if (may_grow(source_)) {
      const std::optional<std::string> expanded = Shader(source_).expand();
      if (!expanded) return failure_of_parsing();
      if (auto found = too_long_to_parse(*expanded)) return failure({*found});
    }
    Shader shader(source_);
    const bool parsed = shader.parse();
    // glslang has errors that do not stop it.
    if (auto errors = read(shader.log()); !parsed || !errors.empty()) {
      return failure(std::move(errors));
    }
    return translate(shader);
  }

 private:
  Result<hal::SpirvModule> translate(Shader& shader) {
    if (auto found = too_deep_to_translate(*shader.get().getIntermediate(), lines_)) {
      return failure({*found});
    }
    glslang::TProgram program;  // goes before its shader
    program.addShader(&shader.get());
    const bool linked = program.link(kMessages);
    if (auto errors = read(program.getInfoLog()); !linked || !errors.empty()) {
      return failure(std::move(errors));
    }
    hal::SpirvModule module;
    module.bindings = source_.bindings;
    spv::SpvBuildLogger log;
    glslang::GlslangToSpv(*program.getIntermediate(EShLangCompute), module.words, &log);
    if (const std::string problems = log.getAllMessages(); !problems.empty()) {
      return failure({{.message = problems}});
    }
    return module;
  }

  // What the preprocessor refuses, parsing refuses as well, and says so in full.
  Failure failure_of_parsing() {
    Shader shader(source_);
    shader.parse();
    return failure(read(shader.log()));
  }

  std::vector<Diagnostic> read(std::string_view log) const {
    return read_glsl_log(log, lines_, source_.defines);
  }

  Failure failure(std::vector<Diagnostic> diagnostics) const {
    if (diagnostics.empty()) diagnostics.push_back({.message = "the compiler does not say why"});
    return Failure(ErrorCode::usage, describe_glsl_errors(source_.name, diagnostics));
  }

  const GlslSource& source_;
  const GlslLines lines_{source_.text};
};

}  // namespace

Result<hal::SpirvModule> compile_glsl(const GlslSource& source) {
  if (source.text.size() > kMaxGlslBytes) {
    return Failure(ErrorCode::usage,
                   fmt::format("the GLSL of kernel '{}' has {} bytes, more than the {} that are "
                               "compiled; split it into several kernels",
                               source.name, source.text.size(), kMaxGlslBytes));
  }
  if (Failure bad_define = check_defines(source)) return bad_define;
  // Never finalized: a thread may compile while the process ends.
  static const bool ready = glslang::InitializeProcess();
  if (!ready) return Failure(ErrorCode::environment, "glslang could not be initialized");
  return Compilation(source).run();
}

std::string glsl_compiler_version() {
  const glslang::Version version = glslang::GetVersion();
  return fmt::format("glslang {}.{}.{}{} generator {}, Vulkan 1.2, SPIR-V 1.5", version.major,
                     version.minor, version.patch, version.flavor,
                     glslang::GetSpirvGeneratorVersion());
}

}  // namespace holdfast::kernel
