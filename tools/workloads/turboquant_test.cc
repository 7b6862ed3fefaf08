// Workload 3, the code of examples/turboquant.cc: equal to its references in double precision,
// plain, under validate and under the adversary.

#include "examples/turboquant_decode.h"
#include "holdfast/array/scenarios/array_rig_test.h"
#include "holdfast/testing/effort.h"

namespace holdfast::workloads {
namespace {

using testing::World;
using turboquant::Codebook;
using turboquant::Config;
using turboquant::Density;
using turboquant::Model;
using turboquant::Quantizer;
using turboquant::Sequence;

std::vector<double> symmetric(const std::vector<double>& positive) {
  std::vector<double> all = positive;
  for (const double c : positive) all.insert(all.begin(), -c);
  return all;
}

TEST(TurboQuantCodebook, each_centroid_is_the_mean_of_its_cell) {
  for (const int64_t depth : {32, 64, 128}) {
    const Density density(depth);
    for (const int bits : {1, 2, 3, 4, 5}) {
      const Codebook book = turboquant::make_codebook(depth, bits);
      ASSERT_EQ(book.centroids.size(), size_t{1} << bits);
      ASSERT_EQ(book.boundaries.size() + 1, book.centroids.size());
      for (size_t i = 0; i < book.centroids.size(); ++i) {
        const double low = i == 0 ? -1 : book.boundaries[i - 1];
        const double high = i + 1 == book.centroids.size() ? 1 : book.boundaries[i];
        const double mean =
            (density.moment(high) - density.moment(low)) / (density.mass(high) - density.mass(low));
        EXPECT_NEAR(book.centroids[i], mean, 1e-6) << depth << " dimensions, " << bits << " bits";
      }
    }
  }
}

// The published ones were not iterated to the end, those of four bits least of all.
TEST(TurboQuantCodebook, is_close_to_the_known_one_of_128_dimensions_and_distorts_no_more) {
  struct Known {
    int bits;
    double distance;
    std::vector<double> centroids;
  };
  const std::vector<Known> all{
      {2, 5e-5, {.03998, .13302}},
      {3, 2e-4, {.02156, .06648, .11801, .18829}},
      {4, 2e-3, {.01108, .03351, .05679, .08158, .10882, .14024, .17934, .23639}}};
  const Density density(128);
  for (const Known& known : all) {
    const Codebook book = turboquant::make_codebook(128, known.bits);
    const std::vector<double> centroids = symmetric(known.centroids);
    for (size_t i = 0; i < centroids.size(); ++i) {
      EXPECT_NEAR(book.centroids[i], centroids[i], known.distance) << known.bits << " bits";
    }
    EXPECT_LE(book.distortion, turboquant::distortion_of(density, 128, centroids));
  }
}

TEST(TurboQuantCodebook, values_of_three_bits_lie_in_two_words) {
  // Values 10 and 21 begin at the bits 30 and 63.
  std::vector<uint32_t> codes(32);
  codes[10] = 5;
  codes[21] = 6;
  EXPECT_EQ(turboquant::packed(codes, 3), (std::vector<uint32_t>{1U << 30, 1U, 3U}));
}

// A schedule takes as long as its kernels: small ones show the same races.
bool simulated(const World& world) { return world.mode() == World::Mode::adversary; }

Config shape_for(const World& world, int key_bits, int value_bits) {
  return {.query_heads = simulated(world) ? 2 : 4,
          .kv_heads = simulated(world) ? 1 : 2,
          .depth = simulated(world) ? 32 : 64,
          .key_bits = key_bits,
          .value_bits = value_bits,
          .growth = simulated(world) ? 2 : 16};
}

// Rows of the standard normal distribution, far enough from every boundary; the last one is zero.
std::vector<float> rows_for(const Quantizer& quantizer, size_t count) {
  const size_t depth = quantizer.signs.size();
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> rows;
  while (rows.size() < (count - 1) * depth) {
    std::vector<float> row(depth);
    for (float& v : row) v = normal(random);
    if (quantizer.encode(row.data()).margin > 1e-6) rows.insert(rows.end(), row.begin(), row.end());
  }
  rows.resize(count * depth);
  return rows;
}

void check_codes(const Quantizer& quantizer, const std::vector<float>& rows,
                 const Model::Encoded& encoded) {
  const size_t depth = quantizer.signs.size();
  const std::vector<uint32_t> words = encoded.words.to_vector<uint32_t>();
  const std::vector<float> norms = encoded.norms.to_vector<float>();
  const size_t per_row = turboquant::words_of(static_cast<int64_t>(depth), quantizer.bits);
  ASSERT_EQ(words.size(), norms.size() * per_row);
  for (size_t row = 0; row < norms.size(); ++row) {
    const Quantizer::Row expected = quantizer.encode(rows.data() + row * depth);
    const auto first = words.begin() + static_cast<ptrdiff_t>(row * per_row);
    EXPECT_EQ(std::vector<uint32_t>(first, first + static_cast<ptrdiff_t>(per_row)),
              turboquant::packed(expected.codes, quantizer.bits))
        << "row " << row << ", " << quantizer.bits << " bits";
    EXPECT_NEAR(norms[row], expected.norm, 1e-6 * (1 + expected.norm));
  }
}

void check_encode(World& world, int key_bits, int value_bits) {
  ArrayRig rig(world);
  const Config config = shape_for(world, key_bits, value_bits);
  const Model model(config);
  constexpr int64_t kTokens = 3;
  const Shape shape{config.kv_heads, kTokens, config.depth};
  const auto count = static_cast<size_t>(config.kv_heads * kTokens);
  const std::vector<float> keys = rows_for(model.keys(), count);
  const std::vector<float> values = rows_for(model.values(), count);
  check_codes(model.keys(), keys, model.encode_keys(Array(keys, shape)));
  check_codes(model.values(), values, model.encode_values(Array(values, shape)));
}

ARRAY_SCENARIO(mlx_3462_turboquant_encodes_to_whole_words) { check_encode(world, 2, 4); }
ARRAY_SCENARIO(mlx_3462_turboquant_encodes_across_words) { check_encode(world, 3, 3); }

// A sequence that has `prompt` tokens before its first step.
void check_steps(World& world, const Config& config, int64_t prompt, int64_t steps) {
  ArrayRig rig(world);
  const Model model(config);
  Sequence sequence(model, 11, {.in_flight = 2});
  if (prompt > 0) sequence.prefill(prompt);
  for (int64_t t = 0; t < steps; ++t) sequence.step();
  sequence.finish();
  const Sequence::Findings& found = sequence.findings();
  EXPECT_EQ(found.checked, steps);
  EXPECT_EQ(found.wrong, 0) << "relative error " << found.worst_error;
  EXPECT_EQ(found.inaccurate, 0) << found.worst_ratio << " of the expected error";
}

ARRAY_SCENARIO(mlx_3462_turboquant_from_the_first_token_on) {
  check_steps(world, shape_for(world, 3, 3), 0, 5);
}
ARRAY_SCENARIO(mlx_3462_turboquant_four_queries_share_a_head) {
  Config config = shape_for(world, 2, 2);
  config.query_heads = 4 * config.kv_heads;
  check_steps(world, config, 2, 2);
}
ARRAY_SCENARIO(mlx_3462_turboquant_from_one_pass_to_two) {
  Config config = shape_for(world, 2, 3);
  config.growth = 64;
  check_steps(world, config, 127, 2);
}

TEST(TurboQuant, every_length_up_to_200_is_right) {
  World world(World::Mode::validate);
  check_steps(
      world,
      {.query_heads = 2, .kv_heads = 1, .depth = 32, .key_bits = 5, .value_bits = 3, .growth = 16},
      0, holdfast::testing::shortened(200));
  EXPECT_EQ(world.failure(), "");
}

// Each drops its arrays as soon as its next step is scheduled, and its caches outgrow their buffers
// in flight.
void decode_beside_each_other(World& world, int sequences, int64_t steps) {
  ArrayRig rig(world, {.runtime = {.reaper = !simulated(world)}});
  const Model model(shape_for(world, 3, 2));
  {
    std::vector<sync::Thread> tasks;
    for (int s = 0; s < sequences; ++s) {
      tasks.push_back(world.task("sequence " + std::to_string(s), [&, s] {
        const UseStream scope(rig.device.new_stream("sequence " + std::to_string(s)));
        Sequence sequence(model, static_cast<uint64_t>(s), {.in_flight = 2});
        for (int64_t t = 0; t < steps; ++t) sequence.step();
        // One in three goes with its last steps in flight.
        if (s % 3 == 2) sequence.abandon();
        sequence.finish();
        EXPECT_EQ(sequence.findings().wrong, 0)
            << "sequence " << s << ": relative error " << sequence.findings().worst_error;
      }));
    }
  }
  if (world.has_faults()) return;
  rig.device.synchronize();
  const Stats stats = rig.stats();
  EXPECT_EQ(stats.runtime.waits_for(WaitReason::budget).count, 0U);
  EXPECT_EQ(stats.runtime.waits_for(WaitReason::out_of_memory).count, 0U);
  EXPECT_EQ(stats.runtime.memory.deferred, Bytes{});
}

ARRAY_SCENARIO(mlx_3462_turboquant_sequences_beside_each_other) {
  decode_beside_each_other(world, simulated(world) ? 2 : 16,
                           simulated(world) ? 3 : holdfast::testing::shortened(20));
}
ARRAY_SCENARIO(mlx_3462_turboquant_thirty_two_sequences_nightly) {
  decode_beside_each_other(world, simulated(world) ? 4 : 32, simulated(world) ? 5 : 150);
}

TEST(TurboQuant, a_longer_sequence_compiles_nothing) {
  World world(World::Mode::plain);
  ArrayRig rig(world);
  const Model model({.query_heads = 2, .kv_heads = 1, .depth = 32, .key_bits = 3, .value_bits = 2});
  Sequence sequence(model, 3, {});
  sequence.prefill(20);
  sequence.step();  // one pass
  sequence.prefill(120);
  sequence.step();  // two
  sequence.finish();
  const uint64_t compiled = rig.compiles();
  for (int t = 0; t < 60; ++t) sequence.step();  // two growths and a block more
  sequence.finish();
  EXPECT_EQ(rig.compiles(), compiled);
  EXPECT_TRUE(sequence.findings().all_right());
}

}  // namespace
}  // namespace holdfast::workloads
