// Workloads written in the kernel language: equal to their references in double precision, plain,
// under validate and under the adversary.

#include "holdfast/kernel/scenarios/kernel_rig_test.h"
#include "holdfast/testing/effort.h"
#include "workloads/fused_layer_norm.h"
#include "workloads/paroquant.h"

namespace holdfast::workloads {
namespace {

using kernel::Dtype;
using kernel::KernelRig;
using testing::World;

// A schedule takes as long as its kernels: small ones show the same races, and sanitizers the same
// accesses.
bool small(const World& world) {
  return world.mode() == World::Mode::adversary || testing::is_shortened();
}

void check_layers(World& world, FusedLayerNorm options) {
  KernelRig rig(world);
  const auto stream = rig.stream("main");
  if (small(world)) {
    options.width = 64;
    options.layers = 3;
  }
  FusedLayerNormRun run(*stream, options);
  run.record(*stream, rig.kernels);
  EXPECT_LE(relative_error(run.result(*stream), run.reference()), run.tolerance());
  EXPECT_EQ(rig.target->compiles(), options.two_sources ? 2U : 1U);
}

KERNEL_SCENARIO(mlx_3263_fused_layer_norm_fp16) { check_layers(world, {}); }
KERNEL_SCENARIO(mlx_3263_fused_layer_norm_fp32) { check_layers(world, {.dtype = Dtype::float32}); }
KERNEL_SCENARIO(mlx_3263_fused_layer_norm_an_output_for_each_simdgroup) {
  check_layers(world, {.rows = 8});
}
KERNEL_SCENARIO(mlx_3263_weights_are_slices_of_one_buffer) {
  check_layers(world, {.sliced_weights = true});
}
KERNEL_SCENARIO(mlx_3263_two_sources_under_one_name) { check_layers(world, {.two_sources = true}); }

void check_rotation(World& world, ParoQuant options, Dtype dtype) {
  KernelRig rig(world);
  const auto stream = rig.stream("main");
  if (small(world)) {
    options.channels = 256;
    options.outputs = 8;
  }
  const ParoQuantLayer layer(*stream, options);
  const auto outputs = layer.record(*stream, rig.kernels, dtype);
  const double tolerance = ParoQuantLayer::tolerance(dtype);
  EXPECT_LE(relative_error(read(*stream, outputs.rotated), layer.rotated_reference(dtype)),
            tolerance);
  EXPECT_LE(relative_error(read(*stream, outputs.product), layer.product_reference(dtype)),
            tolerance);
}

KERNEL_SCENARIO(mlx_pr_3434_paroquant_fp32) { check_rotation(world, {}, Dtype::float32); }
KERNEL_SCENARIO(mlx_pr_3434_paroquant_fp16) { check_rotation(world, {}, Dtype::float16); }
KERNEL_SCENARIO(mlx_pr_3434_paroquant_bf16) { check_rotation(world, {}, Dtype::bfloat16); }
KERNEL_SCENARIO(mlx_pr_3434_paroquant_tail_tile_fp32) {
  check_rotation(world, {.rows = 7}, Dtype::float32);
}
KERNEL_SCENARIO(mlx_pr_3434_paroquant_tail_tile_fp16) {
  check_rotation(world, {.rows = 7}, Dtype::float16);
}
KERNEL_SCENARIO(mlx_pr_3434_paroquant_tail_tile_bf16) {
  check_rotation(world, {.rows = 7}, Dtype::bfloat16);
}

// The bug: one kernel with inputs of two dtypes in one list, and room for one variant.
KERNEL_SCENARIO(mlx_pr_3434_two_dtypes_in_one_list) {
  KernelRig rig(world, {.limits = {.variants = 1}, .disk = nullptr});
  const auto stream = rig.stream("main");
  const ParoQuantLayer layer(*stream, {.rows = 1, .channels = 256, .outputs = 8});
  const auto as_half = layer.record(*stream, rig.kernels, Dtype::float16);
  const auto as_float = layer.record(*stream, rig.kernels, Dtype::float32);
  rig.kernels.clear();
  for (const auto& [outputs, dtype] :
       {std::pair(as_half, Dtype::float16), std::pair(as_float, Dtype::float32)}) {
    EXPECT_LE(relative_error(read(*stream, outputs.product), layer.product_reference(dtype)),
              ParoQuantLayer::tolerance(dtype));
  }
}

}  // namespace
}  // namespace holdfast::workloads
