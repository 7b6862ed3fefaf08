// Whatever a kernel's author and its callers write: it is refused with a sentence, or becomes text
// in which the body stands as it was written, but for suffixes of literals.

#include <fuzzer/FuzzedDataProvider.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "holdfast/kernel/cache/content_key.h"
#include "holdfast/kernel/cache/signature_key.h"
#include "holdfast/kernel/definition.h"
#include "holdfast/kernel/generate/literals.h"
#include "holdfast/kernel/signature.h"
#include "holdfast/kernel/targets/cpu/cpu_text.h"
#include "holdfast/kernel/targets/cuda/cuda_text.h"

namespace {

using namespace holdfast::kernel;

[[noreturn]] void fail(const char* what, const Definition& definition) {
  std::fprintf(stderr, "FAILED: %s\nname: %s\nheader: %s\nbody: %s\n", what,
               definition.name.c_str(), definition.header.c_str(), definition.source.c_str());
  std::abort();
}

constexpr std::array<std::string_view, 12> kNames{"x", "y",       "w",     "N",     "T", "eps",
                                                  "a", "x_shape", "float", "hf_in", "",  "_1"};
constexpr std::array<std::string_view, 43> kPieces{
    "x",
    "y",
    "w",
    "N",
    "T",
    "eps",
    "[i]",
    " = ",
    ";\n",
    "x_shape[0]",
    "y_strides",
    "w_ndim",
    "thread_position_in_grid",
    "threadgroup_position_in_grid",
    "thread_index_in_simdgroup",
    ".x",
    "threadgroup float tile[32];\n",
    "threadgroup_barrier(mem_flags::mem_threadgroup);\n",
    "simd_sum(",
    ")",
    "(",
    "{",
    "}",
    "<",
    ">",
    "#define A N\n",
    "#define F(x) x##f\n",
    "F(0.5)",
    "1e3",
    "#if N > 2\n",
    "#endif\n",
    "#include <metal_stdlib>\n",
    "// comment ",
    "/* ",
    " */",
    "\"text",
    "R\"(raw",
    "'c",
    "\\\n",
    "float4",
    ".xyzw",
    "atomic_fetch_add_explicit(",
    "template <typename U> U f(U u) { return u; }\n"};

std::string name(FuzzedDataProvider& input) {
  if (input.ConsumeIntegralInRange(0, 9) == 0) return input.ConsumeRandomLengthString(12);
  return std::string(input.PickValueInArray(kNames));
}

std::vector<std::string> names(FuzzedDataProvider& input) {
  std::vector<std::string> all(input.ConsumeIntegralInRange<size_t>(0, 4));
  for (std::string& one : all) one = name(input);
  return all;
}

std::string text(FuzzedDataProvider& input) {
  std::string result;
  for (size_t n = input.ConsumeIntegralInRange<size_t>(0, 24); n > 0; --n) {
    if (input.ConsumeIntegralInRange(0, 7) == 0) {
      result += input.ConsumeRandomLengthString(16);
    } else {
      result += input.PickValueInArray(kPieces);
    }
  }
  return result;
}

Dtype dtype(FuzzedDataProvider& input) {
  return static_cast<Dtype>(input.ConsumeIntegralInRange(0U, kDtypes - 1));
}

std::vector<ArgumentType> types(FuzzedDataProvider& input, size_t count) {
  if (input.ConsumeIntegralInRange(0, 15) == 0) ++count;
  std::vector<ArgumentType> all(count);
  for (ArgumentType& type : all) type = {dtype(input), input.ConsumeIntegralInRange(0U, 9U)};
  return all;
}

Definition definition_of(FuzzedDataProvider& input) {
  Definition definition;
  definition.name = input.ConsumeIntegralInRange(0, 9) == 0 ? name(input) : "fuzz";
  definition.inputs = names(input);
  definition.outputs = names(input);
  definition.in_place = names(input);
  definition.atomic_outputs = input.ConsumeBool();
  definition.math = input.ConsumeBool() ? MathMode::fast : MathMode::safe;
  definition.header = text(input);
  definition.source = text(input);
  return definition;
}

CallSignature signature_of(FuzzedDataProvider& input, const Definition& definition) {
  CallSignature signature;
  signature.inputs = types(input, definition.inputs.size());
  signature.outputs = types(input, definition.outputs.size());
  signature.in_place = types(input, definition.in_place.size());
  for (size_t n = input.ConsumeIntegralInRange<size_t>(0, 3); n > 0; --n) {
    ConstantValue value = dtype(input);
    if (input.ConsumeBool()) value = input.ConsumeIntegral<int64_t>();
    if (input.ConsumeIntegralInRange(0, 3) == 0) value = input.ConsumeBool();
    signature.constants.push_back({name(input), value});
  }
  for (size_t n = input.ConsumeIntegralInRange<size_t>(0, 2); n > 0; --n) {
    signature.params.push_back({name(input), dtype(input)});
  }
  return signature;
}

void expect_body_in(const GeneratedKernel& made, const Definition& definition) {
  // Of these two, pieces are replaced by others of the same length.
  const std::string body = with_suffixes(definition.source, made.sources.back().suffixes);
  if (body.find("threadgroup") != body.npos || body.find("include") != body.npos) return;
  if (made.text.find(body) == made.text.npos) fail("the text lacks the body", definition);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  const Definition definition = definition_of(input);
  const CallSignature signature = signature_of(input, definition);
  const SignatureKey key(signature);
  if (!(key == SignatureKey(signature))) fail("a signature has two keys", definition);
  if (const holdfast::Failure refused = check(definition)) {
    if (refused.message().empty()) fail("a refusal says nothing", definition);
    return 0;
  }
  if (const holdfast::Failure refused = check(definition, signature)) {
    if (refused.message().empty()) fail("a refusal says nothing", definition);
    return 0;
  }
  if (describe(definition, signature).empty()) fail("a variant has no description", definition);
  for (const auto text : {cpu_text, cuda_text}) {
    for (const bool bounds : {false, true}) {
      const GenerateOptions options{bounds};
      CompileJob job;
      job.kernel = definition.name;
      job.code = text(definition, signature, options);
      expect_body_in(job.code, definition);
      if (job.code.entry_point.empty()) fail("there is no entry point", definition);
      CompileJob again = job;
      again.code = text(definition, signature, options);
      if (!(ContentKey(job, "") == ContentKey(again, ""))) {
        fail("the same arguments gave another text", definition);
      }
    }
  }
  return 0;
}
