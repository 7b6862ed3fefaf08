#include "holdfast/kernel/targets/vulkan/ir/ir_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "holdfast/kernel/targets/vulkan/ir/translate.h"

namespace holdfast::kernel::ir {
namespace {

using ::testing::HasSubstr;

// As clang 19 and later write some of it.
constexpr std::string_view kText = R"(; ModuleID = 'kernel.cc'
source_filename = "kernel.cc"
target triple = "spir64"

%"struct.a::outer" = type { [2 x %struct.inner], <4 x float> }
%struct.inner = type <{ i32, half }>

@tile = internal global [64 x float] undef, section "hf_threadgroup", align 4
@table = private unnamed_addr constant [3 x i8] c"a\00b", align 1
@llvm.compiler.used = appending global [1 x ptr] [ptr @tile], section "llvm.metadata"

; Function Attrs: convergent
define dso_local spir_func void @entry(ptr noalias noundef readonly captures(none) %0, ptr nocapture %p) local_unnamed_addr #0 !dbg !7 {
  #dbg_value(ptr %0, !8, !DIExpression(), !9)
  %3 = alloca [4 x float], align 4
  %4 = load i32, ptr %p, align 4, !dbg !11, !tbaa !13
  %5 = icmp samesign ult i32 %4, -7
  br i1 %5, label %6, label %20, !dbg !11

6:                                                ; preds = %2
  %7 = trunc nuw nsw i32 %4 to i16
  %8 = or disjoint i32 %4, 1
  %9 = getelementptr inbounds nuw i8, ptr @tile, i64 16
  %10 = select i1 %5, <4 x float> splat (float 1.0e+00), <4 x float> zeroinitializer
  %11 = call fast noundef range(i32 0, 9) i32 @llvm.umin.i32(i32 %8, i32 noundef 3) #2
  %12 = extractelement <4 x float> %10, i64 2
  %13 = uitofp nneg i32 %11 to float
  %14 = fadd contract float %13, 0x3FB99999A0000000
  store float %14, ptr getelementptr inbounds ([64 x float], ptr @tile, i64 0, i64 3), align 4
  call void @llvm.memcpy.p0.p0.i64(ptr align 4 %3, ptr align 16 @table, i64 3, i1 false), !dbg !12
  switch i32 %4, label %20 [
    i32 0, label %15
    i32 7, label %20
  ]

15:
  %16 = phi i64 [ 5, %6 ], !dbg !12
  store half 0xH3C00, ptr %p, align 2
  br label %20

20:
  ret void
}

declare i32 @llvm.umin.i32(i32, i32)
attributes #0 = { convergent "frame-pointer"="all" }
!7 = distinct !DISubprogram(name: "entry", file: !8, line: 1)
!8 = !DIFile(filename: "body", directory: "/")
!11 = !DILocation(line: 4, column: 9, scope: !7)
!12 = !DILocation(line: 5, column: 2, scope: !7, inlinedAt: !11)
)";

TEST(IrReader, reads_what_clang_writes_and_passes_over_the_rest) {
  const auto module = read(kText).or_raise();
  const Function& entry = module->functions.at("entry");
  ASSERT_EQ(entry.arguments.size(), 2U);
  ASSERT_EQ(entry.blocks.size(), 4U);
  ASSERT_EQ(entry.blocks[0]->instructions.size(), 4U);
  const Value& load = *entry.blocks[0]->instructions[1];
  EXPECT_EQ(load.op, Opcode::load);
  EXPECT_EQ(load.operands[0], entry.arguments[1]);
  const Location& at = module->locations[load.location];
  EXPECT_EQ(at.file, "body");
  EXPECT_EQ(at.line, 4U);
  EXPECT_EQ(at.column, 9U);
  const Block& second = *entry.blocks[1];
  EXPECT_EQ(second.instructions[0]->op, Opcode::trunc);
  EXPECT_EQ(second.instructions[4]->callee, "llvm.umin.i32");
  const Value& sum = *second.instructions[7];
  EXPECT_EQ(sum.op, Opcode::fadd);
  EXPECT_EQ(sum.operands[1]->bits, 0x3dcccccdU);  // 0.1f
  const Value& copy = *second.instructions[9];
  EXPECT_EQ(copy.indices[0], 4U);
  EXPECT_EQ(copy.indices[1], 16U);
  EXPECT_EQ(module->locations[copy.location].caller, load.location);
  EXPECT_EQ(second.end()->blocks.size(), 3U);
  EXPECT_EQ(module->globals[0].section, "hf_threadgroup");
  EXPECT_EQ(module->globals[1].initial->operands[1]->bits, 0U);
}

TEST(IrReader, a_type_has_the_layout_of_c) {
  Module module;
  const Type* const word = module.integer(32);
  const Type* const half = module.floating(16);
  const Type* const packed =
      module.type({.kind = TypeKind::structure, .fields = {half, word}, .packed = true});
  const Type* const plain = module.type({.kind = TypeKind::structure, .fields = {half, word}});
  const Type* const three =
      module.type({.kind = TypeKind::vector, .count = 3, .element = module.floating(32)});
  EXPECT_EQ(size_of(*packed), 6U);
  EXPECT_EQ(offset_of(*packed, 1), 2U);
  EXPECT_EQ(size_of(*plain), 8U);
  EXPECT_EQ(offset_of(*plain, 1), 4U);
  EXPECT_EQ(size_of(*three), 16U);
  EXPECT_EQ(module.integer(32), word);
}

TEST(IrReader, what_it_does_not_understand_is_shown) {
  const auto refusal = [](std::string_view body) {
    const std::string text = "define void @f(i32 %0) {\n" + std::string(body) + "\n}\n";
    const auto read_back = read(text);
    EXPECT_FALSE(read_back) << body;
    return read_back ? std::string() : read_back.failure().message();
  };
  EXPECT_THAT(refusal("  frob void @g()\n  ret void"), HasSubstr("'frob', which is not known"));
  EXPECT_THAT(refusal("  invoke void @g()\n  ret void"), HasSubstr("exceptions"));
  EXPECT_THAT(refusal("  %2 = load <2 x ptr>, ptr null\n  ret void"),
              HasSubstr("a vector of pointers; use an array"));
  EXPECT_THAT(refusal("  %2 = add i32 %0, %9\n  ret void"), HasSubstr("a value that is not there"));
  EXPECT_THAT(refusal("  br label %7"), HasSubstr("the block %7 is not there"));
  EXPECT_THAT(refusal("  %2 = add i32 %0, 1"), HasSubstr("does not end"));
  EXPECT_THAT(refusal("  %2 = alloca [99999999999 x i64]\n  ret void"), HasSubstr("too large"));
  EXPECT_THAT(refusal("  %2 = call i32 asm \"nop\", \"=r\"()\n  ret void"), HasSubstr("assembly"));
}

TEST(IrReader, what_it_does_not_understand_has_the_authors_place) {
  constexpr std::string_view kPlaced = R"(define void @f(ptr %0) {
  call void %0(), !dbg !3
  ret void
}
!1 = !DIFile(filename: "body", directory: "/")
!2 = distinct !DISubprogram(name: "f", file: !1, line: 1)
!3 = !DILocation(line: 4, column: 9, scope: !2, inlinedAt: !4)
!4 = !DILocation(line: 7, column: 2, scope: !2)
)";
  std::vector<Location> places;
  const auto read_back = read(kPlaced, &places);
  ASSERT_FALSE(read_back);
  EXPECT_THAT(read_back.failure().message(), HasSubstr("through a pointer"));
  ASSERT_EQ(places.size(), 2U);
  EXPECT_EQ(places[0].file, "body");
  EXPECT_EQ(places[0].line, 4U);
  EXPECT_EQ(places[0].column, 9U);
  EXPECT_EQ(places[1].line, 7U);
}

// A check as clang writes it, in a kernel whose threads meet.
constexpr std::string_view kChecked = R"(
@.str = private unnamed_addr constant [5 x i8] c"body\00", align 1
@.str.1 = private unnamed_addr constant [2 x i8] c"x\00", align 1
define void @entry(ptr %0, i64 %1, ptr %2) {
  %4 = load i64, ptr %2, align 8
  %5 = icmp ult i64 %4, %1
  br i1 %5, label %12, label %6
6:
  %7 = call ptr @hf_spirv_report()
  %8 = call i32 @hf_spirv_atomic_exchange32(ptr %7, i32 1)
  %9 = select i1 %5, ptr @.str, ptr @.str.1
  %10 = call i32 @hf_spirv_name(ptr %9)
  %11 = getelementptr i8, ptr %7, i64 12
  store i32 %10, ptr %11, align 4
  call void @hf_spirv_stop()
  unreachable
12:
  call void @hf_spirv_barrier()
  ret void
}
)";

TEST(IrReader, a_check_becomes_words_with_the_texts_that_it_names) {
  const TranslateOptions options{.entry_point = "entry",
                                 .bindings = 1,
                                 .parameter_bytes = Bytes{64},
                                 .binding_lengths = true,
                                 .reports = true};
  const Translated made = translate_to_spirv(kChecked, options);
  ASSERT_EQ(made.refusal.message, "");
  const std::string text(reinterpret_cast<const char*>(made.words.data()), made.words.size() * 4);
  EXPECT_THAT(text, HasSubstr("holdfast.name 1 body"));
  EXPECT_THAT(text, HasSubstr("holdfast.name 17 x"));
  TranslateOptions without = options;
  without.reports = false;
  EXPECT_THAT(translate_to_spirv(kChecked, without).refusal.message, HasSubstr("reports"));
}

// Any bytes give a module or a refusal.
TEST(IrReader, broken_text_is_refused_and_does_no_worse) {
  std::mt19937 random(7);
  constexpr std::string_view kBytes = "%@!#()[]{}<>,=0123456789ix \n\"-ptrvoid";
  for (int i = 0; i < 3000; ++i) {
    const bool checked = i % 3 == 0;
    std::string text(checked ? kChecked : kText);
    for (uint64_t changes = 1 + random() % 4; changes > 0 && !text.empty(); --changes) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0: text[at] = kBytes[random() % kBytes.size()]; break;
        case 1: text.erase(at, 1 + random() % 12); break;
        case 2: text.insert(at, text.substr(random() % text.size(), random() % 24)); break;
        default: text.resize(std::max<size_t>(at, 1)); break;
      }
    }
    const Translated made = translate_to_spirv(text, {.entry_point = "entry",
                                                      .bindings = 1,
                                                      .parameter_bytes = Bytes{64},
                                                      .binding_lengths = checked,
                                                      .reports = checked});
    EXPECT_NE(made.words.empty(), made.refusal.message.empty());
  }
}

}  // namespace
}  // namespace holdfast::kernel::ir
