#include "holdfast/hal/vulkan/spirv_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <spirv-tools/libspirv.hpp>
#include <spirv/unified1/spirv.hpp11>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "holdfast/hal/vulkan/spirv_reader.h"

namespace holdfast::hal {
namespace {

constexpr spv_target_env kTarget = SPV_ENV_VULKAN_1_2;
// Far beyond what compilers emit. The validator's time grows with the square of the depth: 0.06 s
// at 500, 4.5 s at 8,000.
constexpr uint32_t kMaxTypeDepth = 500;

constexpr uint64_t round_up_4(uint64_t n) { return (n + 3) / 4 * 4; }

struct Need {
  const char* what;  // in words
  bool there;
};

// nullopt: nothing that Holdfast offers.
std::optional<Need> need_of(spv::Capability capability, const VulkanFeatures& has) {
  const auto subgroup = [&](const char* what, VkSubgroupFeatureFlags bit) {
    return Need{what, (has.subgroup & bit) != 0};
  };
  using C = spv::Capability;
  switch (capability) {
    case C::Matrix:
    case C::Shader: return Need{"shaders", true};
    case C::Float16: return Need{"16-bit floats", has.float16};
    case C::Float64: return Need{"64-bit floats", has.float64};
    case C::Int8: return Need{"8-bit integers", has.int8};
    case C::Int16: return Need{"16-bit integers", has.int16};
    case C::Int64: return Need{"64-bit integers", has.int64};
    case C::Int64Atomics: return Need{"atomics on 64-bit integers", has.int64_atomics};
    case C::AtomicFloat32AddEXT: return Need{"atomic addition of floats", has.float_atomic_add};
    case C::StorageBuffer8BitAccess: return Need{"8-bit values in buffers", has.storage_8bit};
    case C::StorageBuffer16BitAccess: return Need{"16-bit values in buffers", has.storage_16bit};
    case C::UniformAndStorageBuffer8BitAccess:
      return Need{"8-bit values in uniform and storage buffers", has.uniform_and_storage_8bit};
    case C::UniformAndStorageBuffer16BitAccess:
      return Need{"16-bit values in uniform and storage buffers", has.uniform_and_storage_16bit};
    case C::StoragePushConstant8:
      return Need{"8-bit values in push constants", has.push_constant_8bit};
    case C::StoragePushConstant16:
      return Need{"16-bit values in push constants", has.push_constant_16bit};
    case C::VariablePointersStorageBuffer:
      return Need{"variable pointers into buffers", has.variable_pointers_storage};
    case C::VariablePointers:
      return Need{"variable pointers into buffers and shared memory", has.variable_pointers};
    case C::PhysicalStorageBufferAddresses: return Need{"buffer addresses", has.buffer_addresses};
    case C::VulkanMemoryModel: return Need{"Vulkan's memory model", has.vulkan_memory_model};
    case C::VulkanMemoryModelDeviceScope:
      return Need{"device scope in Vulkan's memory model", has.memory_model_device_scope};
    case C::SignedZeroInfNanPreserve:
      return Need{"infinities and signed zeros that are kept",
                  has.keeps_nan_16 || has.keeps_nan_32 || has.keeps_nan_64};
    case C::DenormPreserve:
      return Need{"floats too small to be normal that are kept", has.keeps_small_32};
    case C::RoundingModeRTE:
      return Need{"conversions that round to the nearest", has.rounds_to_nearest};
    case C::GroupNonUniform: return subgroup("subgroups", VK_SUBGROUP_FEATURE_BASIC_BIT);
    case C::GroupNonUniformVote:
      return subgroup("votes in subgroups", VK_SUBGROUP_FEATURE_VOTE_BIT);
    case C::GroupNonUniformArithmetic:
      return subgroup("arithmetic in subgroups", VK_SUBGROUP_FEATURE_ARITHMETIC_BIT);
    case C::GroupNonUniformBallot:
      return subgroup("ballots in subgroups", VK_SUBGROUP_FEATURE_BALLOT_BIT);
    case C::GroupNonUniformShuffle:
      return subgroup("shuffles in subgroups", VK_SUBGROUP_FEATURE_SHUFFLE_BIT);
    case C::GroupNonUniformShuffleRelative:
      return subgroup("relative shuffles in subgroups", VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT);
    case C::GroupNonUniformClustered:
      return subgroup("clusters in subgroups", VK_SUBGROUP_FEATURE_CLUSTERED_BIT);
    case C::GroupNonUniformQuad:
      return subgroup("quads in subgroups", VK_SUBGROUP_FEATURE_QUAD_BIT);
    default: return std::nullopt;
  }
}

// "Float16": the library's own name, by the disassembly of that one instruction.
std::string capability_name(uint32_t capability) {
  const std::vector<uint32_t> words{spv::MagicNumber,
                                    0x00010500,
                                    0,
                                    1,
                                    0,
                                    2U << 16 | static_cast<uint32_t>(spv::Op::OpCapability),
                                    capability};
  std::string text;
  constexpr std::string_view kBefore = "OpCapability ";
  if (!spvtools::SpirvTools(kTarget).Disassemble(words, &text,
                                                 SPV_BINARY_TO_TEXT_OPTION_NO_HEADER) ||
      !text.starts_with(kBefore)) {
    return fmt::format("number {}", capability);
  }
  return text.substr(kBefore.size(), text.find_last_not_of(" \n") + 1 - kBefore.size());
}

struct ContextDeleter {
  void operator()(spv_context_t* context) const { spvContextDestroy(context); }
};
struct OptionsDeleter {
  void operator()(spv_validator_options_t* options) const { spvValidatorOptionsDestroy(options); }
};

class Check {
 public:
  Check(const PipelineDesc& desc, const SpirvModule& module, const VulkanFeatures& features)
      : desc_(desc), module_(module), features_(features), reader_(module.constants) {}

  Failure run() {
    for (const auto step :
         {&Check::validity, &Check::entry, &Check::capabilities, &Check::constants,
          &Check::group_size, &Check::shared_memory, &Check::bindings, &Check::push_constants}) {
      if (Failure failure = (this->*step)()) return failure;
    }
    return {};
  }

 private:
  template <typename... Args>
  Failure refuse(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) const {
    return {code, fmt::format("kernel '{}' {}", desc_.name,
                              fmt::format(format, std::forward<Args>(args)...))};
  }

  // Also reads the module: the depth of its types decides whether the validator may see it.
  Failure validity() {
    if (module_.words.empty() || module_.words.front() != spv::MagicNumber) {
      return refuse(ErrorCode::usage,
                    "is no SPIR-V: its first word must be {:#010x}, in this machine's byte order",
                    spv::MagicNumber);
    }
    const std::unique_ptr<spv_context_t, ContextDeleter> context(spvContextCreate(kTarget));
    const std::unique_ptr<spv_validator_options_t, OptionsDeleter> options(
        spvValidatorOptionsCreate());
    spvValidatorOptionsSetScalarBlockLayout(options.get(), features_.scalar_layout);

    spv_diagnostic diagnostic = nullptr;
    spv_result_t result = reader_.read(context.get(), module_.words, &diagnostic);
    if (result == SPV_SUCCESS && reader_.type_depth() > kMaxTypeDepth) {
      return refuse(ErrorCode::usage, "nests types {} deep; {} is the limit", reader_.type_depth(),
                    kMaxTypeDepth);
    }
    if (result == SPV_SUCCESS) {
      spv_const_binary_t binary{module_.words.data(), module_.words.size()};
      result = spvValidateWithOptions(context.get(), options.get(), &binary, &diagnostic);
    }
    std::string why = diagnostic != nullptr && diagnostic->error != nullptr
                          ? diagnostic->error
                          : "the validator gives no reason";
    spvDiagnosticDestroy(diagnostic);
    if (result == SPV_SUCCESS) return {};
    why.resize(why.find_last_not_of(" \n") + 1);
    std::replace(why.begin(), why.end(), '\n', ' ');
    return refuse(ErrorCode::usage,
                  "is no valid SPIR-V for Vulkan 1.2: {}; compile it for that target", why);
  }

  Failure entry() {
    std::vector<std::string> others;
    for (const spirv::EntryPoint& entry : reader_.entry_points()) {
      if (entry.model != spv::ExecutionModel::GLCompute) continue;
      if (entry.name == module_.entry_point) entry_ = &entry;
      others.push_back(fmt::format("'{}'", entry.name));
    }
    if (entry_ == nullptr) {
      return refuse(ErrorCode::usage, "has no compute entry point '{}'; it has {}",
                    module_.entry_point,
                    others.empty() ? "none" : fmt::format("{}", fmt::join(others, ", ")));
    }
    used_ = reader_.used_by(*entry_);
    return {};
  }

  Failure capabilities() {
    std::vector<std::string> missing;
    for (const uint32_t capability : reader_.capabilities()) {
      const auto need = need_of(static_cast<spv::Capability>(capability), features_);
      if (need && need->there) continue;
      const std::string name = capability_name(capability);
      missing.push_back(
          need ? fmt::format("needs {} (capability {}), which this device does not have",
                             need->what, name)
               : fmt::format("needs the capability {}, which Holdfast does not offer", name));
    }
    if (module_.bindings == SpirvBindings::addresses && !features_.buffer_addresses &&
        missing.empty()) {
      missing.emplace_back(
          "takes its bindings by address, and this device has no buffer addresses: give it "
          "descriptors (SpirvBindings::descriptors)");
    }
    if (missing.empty()) return {};
    return refuse(ErrorCode::unsupported, "{}", fmt::join(missing, "; it "));
  }

  Failure constants() {
    std::unordered_set<uint32_t> seen;
    for (const SpirvModule::Constant& constant : module_.constants) {
      const auto declared = reader_.spec_constants().find(constant.id);
      if (declared == reader_.spec_constants().end()) {
        return refuse(ErrorCode::usage,
                      "declares no specialization constant {}; leave it out, or declare it",
                      constant.id);
      }
      if (declared->second != constant.bytes) {
        return refuse(ErrorCode::usage,
                      "declares specialization constant {} with {} bytes, and {} are given",
                      constant.id, declared->second, constant.bytes);
      }
      if (!seen.insert(constant.id).second) {
        return refuse(ErrorCode::usage, "is given specialization constant {} twice", constant.id);
      }
    }
    return {};
  }

  Failure group_size() {
    std::array<uint64_t, 3> size{};
    uint64_t threads = 1;
    const auto told = reader_.group_size(*entry_);
    for (size_t axis = 0; axis < 3; ++axis) {
      if (!told.at(axis)) {
        return refuse(ErrorCode::unsupported,
                      "has a group size that cannot be told before it runs; make it of constants "
                      "and specialization constants");
      }
      size.at(axis) = *told.at(axis);
      threads = spirv::product(threads, size.at(axis));
    }
    if (threads == 0) {
      return refuse(ErrorCode::usage, "has groups of {} threads, which is none",
                    fmt::join(size, " x "));
    }
    const auto& max = features_.max_group_size;
    if (size[0] > max[0] || size[1] > max[1] || size[2] > max[2] ||
        threads > features_.max_group_threads) {
      return refuse(ErrorCode::unsupported,
                    "has groups of {} threads; this device allows {}, and {} in all",
                    fmt::join(size, " x "), fmt::join(max, " x "), features_.max_group_threads);
    }
    return {};
  }

  Failure shared_memory() {
    uint64_t bytes = 0;
    for (const spirv::Variable& variable : reader_.variables()) {
      if (variable.storage != spv::StorageClass::Workgroup || !used_.contains(variable.id))
        continue;
      bytes = spirv::sum(bytes, reader_.type(reader_.type(variable.type).inner).size);
    }
    if (bytes <= features_.max_shared_bytes) return {};
    return refuse(ErrorCode::unsupported, "uses {} bytes of shared memory; this device has {}",
                  bytes == spirv::kEndless ? "untold" : fmt::format("{}", bytes),
                  features_.max_shared_bytes);
  }

  Failure bindings() {
    for (const spirv::Variable& variable : reader_.variables()) {
      if (!used_.contains(variable.id)) continue;
      const spirv::Id block = reader_.type(variable.type).inner;
      switch (variable.storage) {
        case spv::StorageClass::StorageBuffer:
        case spv::StorageClass::Uniform:
        case spv::StorageClass::UniformConstant:
          if (Failure failure = descriptor(variable, block)) return failure;
          break;
        default: break;
      }
    }
    return {};
  }

  Failure descriptor(const spirv::Variable& variable, spirv::Id block) const {
    const spirv::Decorations& placed = reader_.decorations(variable.id);
    const uint32_t set = placed.set.value_or(0);
    const uint32_t binding = placed.binding.value_or(0);
    const auto refuse_it = [&](ErrorCode code, const std::string& why) {
      return refuse(code, "declares something at set {}, binding {}: {}", set, binding, why);
    };
    if (module_.bindings == SpirvBindings::addresses) {
      return refuse_it(ErrorCode::usage,
                       "it is to take its bindings by address, so it may declare none (or say "
                       "SpirvBindings::descriptors)");
    }
    if (reader_.type(block).kind == spirv::Type::Kind::array) {
      return refuse_it(ErrorCode::unsupported,
                       "an array of buffers; give each buffer a binding of its own");
    }
    // Until SPIR-V 1.3 a storage buffer was a BufferBlock in Uniform.
    const bool storage_buffer =
        variable.storage == spv::StorageClass::StorageBuffer ||
        (variable.storage == spv::StorageClass::Uniform && reader_.decorations(block).buffer_block);
    if (!storage_buffer) {
      return refuse_it(ErrorCode::unsupported,
                       variable.storage == spv::StorageClass::Uniform
                           ? "a uniform buffer; declare a storage buffer instead"
                           : "an image, a sampler or the like; only storage buffers can be bound");
    }
    if (set != 0) return refuse_it(ErrorCode::usage, "only set 0 is there");
    const bool parameter_buffer = desc_.parameter_bytes > SpirvModule::kMaxPushBytes;
    if (binding < desc_.bindings || (parameter_buffer && binding == desc_.bindings)) return {};
    return refuse_it(ErrorCode::usage,
                     fmt::format("a dispatch gives {} bindings{}, counted from 0", desc_.bindings,
                                 parameter_buffer ? " and, after them, the parameters" : ""));
  }

  uint64_t push_limit() const {
    const uint64_t max = SpirvModule::kMaxPushBytes.value;
    const uint64_t parameters = desc_.parameter_bytes.value;
    if (module_.bindings == SpirvBindings::descriptors) {
      return parameters <= max ? round_up_4(parameters) : 0;
    }
    const uint64_t block = spirv::sum(module_.address_bytes(desc_.bindings).value, parameters);
    return block <= max ? round_up_4(block) : 8;
  }

  Failure push_constants() {
    for (const spirv::Variable& variable : reader_.variables()) {
      if (variable.storage != spv::StorageClass::PushConstant || !used_.contains(variable.id)) {
        continue;
      }
      const uint64_t size = reader_.type(reader_.type(variable.type).inner).size;
      if (size <= push_limit()) continue;
      return refuse(
          ErrorCode::usage,
          "declares push constants of {} bytes, and with {} bindings and {} bytes of parameters it "
          "gets {}{}; see SpirvModule",
          size == spirv::kEndless ? "untold" : fmt::format("{}", size), desc_.bindings,
          desc_.parameter_bytes.value, push_limit(),
          module_.bindings == SpirvBindings::addresses ? "" : " (more than 128 are a buffer)");
    }
    return {};
  }

  const PipelineDesc& desc_;
  const SpirvModule& module_;
  const VulkanFeatures& features_;
  spirv::Reader reader_;
  const spirv::EntryPoint* entry_ = nullptr;  // in reader_
  std::unordered_set<spirv::Id> used_;        // by the entry point
};

}  // namespace

Failure check_spirv(const PipelineDesc& desc, const VulkanFeatures& features) {
  const auto* module = std::get_if<SpirvModule>(&desc.module);
  if (module == nullptr) {
    return {ErrorCode::unsupported,
            fmt::format("kernel '{}' is no SPIR-V; Vulkan devices run nothing else", desc.name)};
  }
  return Check(desc, *module, features).run();
}

}  // namespace holdfast::hal
