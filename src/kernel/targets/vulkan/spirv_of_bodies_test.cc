// What modules of bodies have and have not, seen in their instructions.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <spirv-tools/libspirv.hpp>
#include <spirv/unified1/spirv.hpp11>

#include "holdfast/kernel/targets/vulkan/clang.h"
#include "holdfast/kernel/targets/vulkan/vulkan_target.h"

namespace holdfast::kernel {
namespace {

using Instruction = std::vector<uint32_t>;  // its operands

constexpr uint32_t kFma = 50;  // GLSLstd450Fma

// By opcode, of a module that is valid.
std::multimap<spv::Op, Instruction> instructions_of(const std::string& source,
                                                    const std::string& architecture = {}) {
  hal::DeviceInfo device;
  device.architecture = architecture;
  VulkanTarget target(device);
  CompileJob job;
  job.kernel = "seen";
  job.code = target
                 .generate({.name = "seen",
                            .inputs = {"x"},
                            .outputs = {"flags"},
                            .in_place = {"y"},
                            .source = source,
                            .atomic_outputs = true},
                           {.inputs = {{Dtype::uint32}},
                            .outputs = {{Dtype::uint32}},
                            .in_place = {{Dtype::uint32}}},
                           {})
                 .or_raise();
  const Code code = target.compile(job).or_raise();
  std::vector<uint32_t> words(code.size() / 4);
  std::memcpy(words.data(), code.data(), code.size());
  spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_2);
  std::string wrong;
  tools.SetMessageConsumer([&](spv_message_level_t, const char*, const spv_position_t&,
                               const char* text) { wrong += text; });
  EXPECT_TRUE(tools.Validate(words)) << wrong;
  std::multimap<spv::Op, Instruction> all;
  for (size_t at = 5; at < words.size(); at += words[at] >> 16) {
    const auto begin = words.begin() + static_cast<ptrdiff_t>(at);
    all.emplace(static_cast<spv::Op>(*begin & 0xffff),
                Instruction(begin + 1, begin + (*begin >> 16)));
  }
  return all;
}

class SpirvOfBodies : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto clang = Clang::find(); !clang) GTEST_SKIP() << clang.failure().message();
  }
};

// Threads that come to different copies of a barrier would wait for each other for ever.
TEST_F(SpirvOfBodies, a_barrier_of_the_text_is_one_of_the_module) {
  const auto all = instructions_of(R"(
threadgroup uint s[64];
uint t = thread_index_in_threadgroup;
uint n = x[threadgroup_position_in_grid.x];
for (uint r = 0; r < n; ++r) {
  s[t] = r;
  if (n % 3 == 0) {
    y[0] = r;
  } else {
    y[1] = n;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (s[63 - t] == 5 && n == 7) break;
}
switch (n) {
  case 1: s[t] = 3; break;
  case 2: s[t] += 9;
  case 9: s[t] ^= n; break;
  default: s[t] = x[t];
}
threadgroup_barrier(mem_flags::mem_threadgroup);
y[t] = s[63 - t];
)");
  EXPECT_EQ(all.count(spv::Op::OpControlBarrier), 2U);
}

// What it read before a barrier tells a thread nothing of what is there behind it.
TEST_F(SpirvOfBodies, threadgroup_memory_is_read_again_behind_a_barrier) {
  const auto all = instructions_of(R"(
threadgroup uint s[2];
s[0] = 1;
s[1] = s[0];
threadgroup_barrier(mem_flags::mem_threadgroup);
if (thread_index_in_threadgroup == 3) s[0] = 2;
threadgroup_barrier(mem_flags::mem_threadgroup);
y[thread_position_in_grid.x] = s[0] + s[1];
)");
  std::map<uint32_t, uint32_t> class_of;  // of pointer types
  for (auto [at, end] = all.equal_range(spv::Op::OpTypePointer); at != end; ++at) {
    class_of[at->second[0]] = at->second[1];
  }
  size_t places = 0;
  for (auto [at, end] = all.equal_range(spv::Op::OpAccessChain); at != end; ++at) {
    const auto workgroup = static_cast<uint32_t>(spv::StorageClass::Workgroup);
    if (class_of.at(at->second[0]) == workgroup) ++places;
  }
  // Three are written, of which s[1] = s[0] is known to be 1, and two are read at the end.
  EXPECT_GE(places, 5U);
}

size_t volatile_accesses(const std::multimap<spv::Op, Instruction>& all) {
  const auto mask = static_cast<uint32_t>(spv::MemoryAccessMask::Volatile);
  size_t count = 0;
  for (const auto& [op, operands] : all) {
    if (op == spv::Op::OpLoad && operands.size() > 3 && (operands[3] & mask) != 0) ++count;
    if (op == spv::Op::OpStore && operands.size() > 2 && (operands[2] & mask) != 0) ++count;
  }
  return count;
}

// Others may look for it behind a fence or a barrier: it must not stay in a cache that they do not
// see. What no thread passes to another is left to the compiler.
TEST_F(SpirvOfBodies, what_threads_pass_each_other_through_device_memory_is_volatile) {
  const auto count = [](const std::string& between, const std::string& last) {
    return volatile_accesses(instructions_of(
        "uint i = thread_position_in_grid.x;\ny[i] = i * 3 + x[i];\n" + between + "\n" + last));
  };
  const std::string store = "atomic_store_explicit(&flags[0], 1u, memory_order_relaxed);";
  const std::string read = "atomic_store_explicit(&flags[0], y[i ^ 1], memory_order_relaxed);";
  for (const std::string order :
       {"atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);",
        "threadgroup_barrier(mem_flags::mem_device);"}) {
    EXPECT_EQ(count(order, read), 2U) << order;
    EXPECT_EQ(count(order, store), 0U) << order;
  }
  EXPECT_EQ(count("", read), 0U);
}

// Every operation of simdgroups, in flow that is the same for all and in flow that is not.
constexpr const char* kSimdOperations = R"(
uint t = thread_position_in_grid.x;
uint v = x[t];
for (uint r = 0; r < x[0]; ++r) {
  v += simd_sum(v) + uint(simd_max(float(v))) + simd_prefix_exclusive_sum(v);
  simdgroup_barrier(mem_flags::mem_threadgroup);
}
if (v % 3 == 0) {
  v ^= simd_shuffle_down(v, 3u) + simd_broadcast_first(v) + simd_prefix_inclusive_product(v);
  for (uint r = 0; r < v; ++r) v += uint(simd_product(ulong(v))) + uint(simd_sum(half(r)));
} else if (simd_any(v == 5) && !simd_all(v == 6)) {
  v += uint(ulong(simd_ballot(v > 7))) + simd_is_first();
}
y[t] = v + uint(simd_sum(float4(v)).y);
)";

TEST_F(SpirvOfBodies, simdgroups_that_are_subgroups_use_no_memory) {
  const auto all = instructions_of(
      "y[0] = simd_sum(x[0]) + simd_prefix_inclusive_sum(x[1]) + simd_shuffle_xor(x[2], 1u);",
      "simd32");
  EXPECT_GT(all.count(spv::Op::OpGroupNonUniformShuffle), 0U);
  EXPECT_GT(all.count(spv::Op::OpGroupNonUniformBallot), 0U);
  EXPECT_EQ(all.count(spv::Op::OpControlBarrier), 0U);
  const auto workgroup = static_cast<uint32_t>(spv::StorageClass::Workgroup);
  for (auto [at, end] = all.equal_range(spv::Op::OpVariable); at != end; ++at) {
    EXPECT_NE(at->second[2], workgroup);
  }
}

TEST_F(SpirvOfBodies, every_operation_of_simdgroups_is_valid_in_subgroups_and_without) {
  const auto native = instructions_of(kSimdOperations, "nan32 simd32");
  EXPECT_GT(native.count(spv::Op::OpGroupNonUniformShuffle), 0U);
  const auto emulated = instructions_of(kSimdOperations, "nan32");
  EXPECT_EQ(emulated.count(spv::Op::OpGroupNonUniformShuffle), 0U);
  EXPECT_EQ(emulated.count(spv::Op::OpGroupNonUniformBallot), 0U);
}

size_t coherent_members(const std::multimap<spv::Op, Instruction>& all) {
  const auto coherent = static_cast<uint32_t>(spv::Decoration::Coherent);
  const auto [begin, end] = all.equal_range(spv::Op::OpMemberDecorate);
  return static_cast<size_t>(
      std::count_if(begin, end, [&](const auto& one) { return one.second[2] == coherent; }));
}

// Other groups may look for it behind a fence; behind a barrier, the own group alone.
TEST_F(SpirvOfBodies, what_groups_pass_each_other_is_coherent) {
  const auto count = [](const std::string& between, const std::string& read) {
    return coherent_members(
        instructions_of("uint i = thread_position_in_grid.x;\ny[i] = i * 3 + x[i];\n" + between +
                        "\natomic_store_explicit(&flags[0], " + read + ", memory_order_relaxed);"));
  };
  const std::string fence = "atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst);";
  EXPECT_EQ(count(fence, "y[i ^ 1]"), 1U);  // one type
  EXPECT_EQ(count(fence, "1u"), 0U);
  EXPECT_EQ(count("threadgroup_barrier(mem_flags::mem_device);", "y[i ^ 1]"), 0U);
}

// clang would make a vector of the two pointers, which Vulkan does not have.
TEST_F(SpirvOfBodies, neighbouring_computations_with_pointers_are_not_joined) {
  const auto all = instructions_of(
      "uint i = thread_position_in_grid.x;\n"
      "device uint* to = y + i * 3;\n"
      "const device uint* from = x + i * 5;\n"
      "uint before = uint(reinterpret_cast<ulong>(to) / 4) % 4;\n"
      "uint behind = (uint(reinterpret_cast<ulong>(from) / 4) - before) % 4;\n"
      "to[before] = from[behind];");
  EXPECT_EQ(all.count(spv::Op::OpCompositeConstruct), 0U);
}

// Vulkan leaves the remainder of negative numbers undefined.
TEST_F(SpirvOfBodies, remainders_with_a_sign_are_made_of_quotients) {
  const auto all = instructions_of(
      "uint i = thread_position_in_grid.x;\n"
      "y[i] = uint(int(x[i]) % (int(x[i + 1]) | 1)) + uint(long(int(x[i])) * 99999 % (long(int(x[i "
      "+ 1])) | 1));");
  EXPECT_EQ(all.count(spv::Op::OpSRem) + all.count(spv::Op::OpSMod), 0U);
  EXPECT_EQ(all.count(spv::Op::OpSDiv), 2U);
}

// Drivers may regroup what is not kept apart: (1 + v) - 1 would be v.
TEST_F(SpirvOfBodies, sums_are_fused_with_products_and_never_regrouped) {
  const auto parts = [](const std::string& head) {
    const auto all =
        instructions_of(head +
                        "uint i = thread_position_in_grid.x;\n"
                        "float a = as_type<float>(x[i]), b = as_type<float>(x[i + 1]);\n"
                        "y[i] = as_type<uint>(a * b + 2.0f) ^ as_type<uint>((1.0f + a) - b);");
    size_t fused = 0;
    for (auto [at, end] = all.equal_range(spv::Op::OpExtInst); at != end; ++at) {
      if (at->second[3] == kFma) ++fused;
    }
    size_t apart = 0;
    for (auto [at, end] = all.equal_range(spv::Op::OpDecorate); at != end; ++at) {
      if (at->second[1] == static_cast<uint32_t>(spv::Decoration::NoContraction)) ++apart;
    }
    return std::pair{fused, apart};
  };
  EXPECT_EQ(parts(""), (std::pair<size_t, size_t>{1, 4}));  // the product is made, and unused
  EXPECT_EQ(parts("#pragma METAL fp contract(off)\n"), (std::pair<size_t, size_t>{0, 4}));
}

// Vulkan promises quotients and roots to 2.5 units: they are corrected by fused operations.
TEST_F(SpirvOfBodies, quotients_and_roots_are_corrected) {
  const auto fused = [](const std::string& expression) {
    const auto all = instructions_of(
        "uint i = thread_position_in_grid.x;\n"
        "float a = as_type<float>(x[i]), b = as_type<float>(x[i + 1]);\n"
        "y[i] = as_type<uint>(" +
        expression + ");");
    const auto [begin, end] = all.equal_range(spv::Op::OpExtInst);
    return std::count_if(begin, end, [](const auto& one) { return one.second[3] == kFma; });
  };
  EXPECT_EQ(fused("a / b"), 6);
  EXPECT_EQ(fused("metal::sqrt(a)"), 2);
  EXPECT_EQ(fused("a / 4.0f"), 0);
}

}  // namespace
}  // namespace holdfast::kernel
