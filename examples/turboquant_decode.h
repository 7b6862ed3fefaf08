#pragma once

#include <holdfast/holdfast.h>

#include <cmath>
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "turboquant_codebook.h"

// Decoding over a key-value cache that TurboQuant compresses: the kernels, the cache, and a
// sequence that checks every step. examples/turboquant.cc runs many of them beside each other.

namespace turboquant {

namespace hf = holdfast;

struct Config {
  int64_t query_heads = 4;
  int64_t kv_heads = 2;
  int64_t depth = 64;  // a power of two, from 32 on
  int key_bits = 4;
  int value_bits = 4;
  int64_t growth = 32;  // tokens: capacities are multiples of it
};

constexpr int64_t kBlockTokens = 64;     // of a block of the two passes
constexpr int64_t kOnePassTokens = 128;  // up to here one pass is enough

// What a program must keep until the device is done with it where nothing is retained for it: every
// array that a step makes, hidden copies too. Only to measure what retention costs.
using Kept = std::vector<hf::Array>;

inline const char* const kHeader = R"(
// The Walsh-Hadamard transform of x[D] without its factor, by the 32 threads of a group.
void hadamard(threadgroup float* x, uint lane) {
  for (uint span = 1; span < uint(D); span *= 2) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = lane; i < uint(D) / 2; i += 32) {
      uint a = i / span * 2 * span + i % span;
      float lower = x[a];
      float upper = x[a + span];
      x[a] = lower + upper;
      x[a + span] = lower - upper;
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
}

// The i-th value of BITS bits; it may lie in two words.
template <int BITS>
uint unpack(const device uint* words, uint i) {
  uint at = i * BITS;
  uint shift = at % 32;
  uint value = words[at / 32] >> shift;
  if (32 % BITS != 0 && shift + BITS > 32) value |= words[at / 32 + 1] << (32 - shift);
  return value & ((1u << BITS) - 1);
}
)";

// A group of 32 threads encodes a row.
inline const char* const kEncode = R"(
threadgroup float y[D];
threadgroup uint codes[D];
uint lane = thread_index_in_threadgroup;
uint row = threadgroup_position_in_grid.x;

float squares = 0.0f;
for (uint d = lane; d < uint(D); d += 32) {
  float v = float(x[row * D + d]);
  y[d] = v * signs[d];
  squares += v * v;
}
float norm = metal::sqrt(simd_sum(squares));
float scale = norm > 1e-8f ? metal::rsqrt(float(D)) / norm : 0.0f;
hadamard(y, lane);
for (uint d = lane; d < uint(D); d += 32) {
  float v = y[d] * scale;
  uint code = 0;
  for (uint i = 0; i + 1 < (1u << BITS); ++i) code += boundaries[i] < v ? 1u : 0u;
  codes[d] = code;
}
threadgroup_barrier(mem_flags::mem_threadgroup);

for (uint w = lane; w < uint(WORDS); w += 32) {
  uint word = 0;
  for (uint i = w * 32 / BITS; i < uint(D) && i * BITS < w * 32 + 32; ++i) {
    uint at = i * BITS;
    word |= at >= w * 32 ? codes[i] << (at - w * 32) : codes[i] >> (w * 32 - at);
  }
  words[row * WORDS + w] = word;
}
if (lane == 0) norms[row] = norm;
)";

// A group of 32 threads attends with one query to one block of tokens: each thread scores one of 32
// tokens, then sums its share of their values' coordinates.
inline const char* const kAttend = R"(
constexpr uint SHARE = D / 32;
threadgroup float query[D];
threadgroup float weights[32];
threadgroup float key_of[1 << KEY_BITS];
threadgroup float value_of[1 << VALUE_BITS];
uint lane = thread_index_in_threadgroup;
uint block = threadgroup_position_in_grid.x;
uint row = threadgroup_position_in_grid.y;
uint head = row / repeat * token_count;  // where its tokens begin
uint begin = block * block_tokens;
uint end = metal::min(begin + block_tokens, token_count);

for (uint i = lane; i < (1u << KEY_BITS); i += 32) key_of[i] = key_centroids[i];
for (uint i = lane; i < (1u << VALUE_BITS); i += 32) value_of[i] = value_centroids[i];
for (uint d = lane; d < uint(D); d += 32) query[d] = float(q[row * D + d]) * scale * key_signs[d];
hadamard(query, lane);

// The online softmax, 32 tokens at a time: the largest score, the sum of weights, and the output
// relative to them.
float largest = -INFINITY;
float sum = 0.0f;
float o[SHARE] = {};
for (uint chunk = begin; chunk < end; chunk += 32) {
  uint t = chunk + lane;
  float score = -INFINITY;
  if (t < end) {
    const device uint* packed = key_words + (head + t) * KEY_WORDS;
    float dot[8] = {};  // sums that do not wait for each other
    for (uint d = 0; d < uint(D); d += 8) {
      for (uint j = 0; j < 8; ++j) {
        dot[j] += query[d + j] * key_of[unpack<KEY_BITS>(packed, d + j)];
      }
    }
    float total = ((dot[0] + dot[1]) + (dot[2] + dot[3])) + ((dot[4] + dot[5]) + (dot[6] + dot[7]));
    score = total * metal::rsqrt(float(D)) * key_norms[head + t];
  }
  float before = largest;
  largest = metal::max(before, simd_max(score));
  float weight = t < end ? metal::precise::exp(score - largest) : 0.0f;
  float shrink = metal::precise::exp(before - largest);
  sum = sum * shrink + simd_sum(weight);
  weights[lane] = t < end ? weight * value_norms[head + t] : 0.0f;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint j = 0; j < SHARE; ++j) o[j] *= shrink;
  uint count = metal::min(32u, end - chunk);
  for (uint i = 0; i < count; ++i) {
    const device uint* packed = value_words + (head + chunk + i) * VALUE_WORDS;
    for (uint j = 0; j < SHARE; ++j) {
      o[j] += weights[i] * value_of[unpack<VALUE_BITS>(packed, lane * SHARE + j)];
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
)";

// One pass: the block is the whole sequence.
inline const char* const kFinish = R"(
for (uint j = 0; j < SHARE; ++j) query[lane * SHARE + j] = o[j] / sum;
hadamard(query, lane);
for (uint d = lane; d < uint(D); d += 32) {
  out[row * D + d] = query[d] * metal::rsqrt(float(D)) * value_signs[d];
}
)";

// The first of two passes: what the merge needs to know of a block.
inline const char* const kStoreBlock = R"(
uint at = row * num_blocks + block;
for (uint j = 0; j < SHARE; ++j) partial[at * D + lane * SHARE + j] = o[j];
if (lane == 0) {
  largest_of[at] = largest;
  sum_of[at] = sum;
}
)";

// The second: a group of 32 threads merges the blocks of a query and rotates back.
inline const char* const kMerge = R"(
threadgroup float merged[D];
uint lane = thread_index_in_threadgroup;
uint row = threadgroup_position_in_grid.x;
uint first = row * num_blocks;
float largest = -INFINITY;
for (uint b = 0; b < num_blocks; ++b) largest = metal::max(largest, largest_of[first + b]);
float sum = 0.0f;
for (uint b = 0; b < num_blocks; ++b) {
  sum += sum_of[first + b] * metal::precise::exp(largest_of[first + b] - largest);
}
for (uint d = lane; d < uint(D); d += 32) {
  float o = 0.0f;
  for (uint b = 0; b < num_blocks; ++b) {
    o += partial[(first + b) * D + d] * metal::precise::exp(largest_of[first + b] - largest);
  }
  merged[d] = o / sum;
}
hadamard(merged, lane);
for (uint d = lane; d < uint(D); d += 32) {
  out[row * D + d] = merged[d] * metal::rsqrt(float(D)) * value_signs[d];
}
)";

inline std::vector<float> random_signs(int64_t depth, uint64_t seed) {
  std::mt19937_64 bits(seed);
  std::vector<float> signs(static_cast<size_t>(depth));
  for (float& s : signs) s = bits() % 2 == 0 ? 1.0F : -1.0F;
  return signs;
}

// What all sequences share: the kernels, and the codebooks on the host and on the device. Immutable
// once made; any thread may use it.
class Model {
 public:
  explicit Model(const Config& config)
      : config_(config),
        keys_(config.depth, config.key_bits, random_signs(config.depth, 1)),
        values_(config.depth, config.value_bits, random_signs(config.depth, 2)),
        encode_({.name = "turboquant_encode",
                 .inputs = {"x", "signs", "boundaries"},
                 .outputs = {"words", "norms"},
                 .source = kEncode,
                 .header = kHeader}),
        one_pass_({.name = "turboquant_one_pass",
                   .inputs = attention_inputs({"value_signs"}),
                   .outputs = {"out"},
                   .source = std::string(kAttend) + kFinish,
                   .header = kHeader}),
        blocks_({.name = "turboquant_blocks",
                 .inputs = attention_inputs({}),
                 .outputs = {"partial", "largest_of", "sum_of"},
                 .source = std::string(kAttend) + kStoreBlock,
                 .header = kHeader}),
        merge_({.name = "turboquant_merge",
                .inputs = {"partial", "largest_of", "sum_of", "value_signs"},
                .outputs = {"out"},
                .source = kMerge,
                .header = kHeader}),
        key_arrays_(keys_),
        value_arrays_(values_) {}

  const Config& config() const { return config_; }
  const Quantizer& keys() const { return keys_; }
  const Quantizer& values() const { return values_; }

  struct Encoded {
    hf::Array words;  // uint32 [heads, tokens, words of a row]
    hf::Array norms;  // float32 [heads, tokens]
  };
  // float32 [heads, tokens, depth]
  Encoded encode_keys(const hf::Array& rows) const { return encode(rows, keys_, key_arrays_); }
  Encoded encode_values(const hf::Array& rows) const {
    return encode(rows, values_, value_arrays_);
  }

  // q: float32 [query heads, depth]; keys and values: all tokens, in any layout. How many there are
  // is known at run time only: a longer sequence is no other variant.
  hf::Array attend(const hf::Array& q, const Encoded& keys, const Encoded& values,
                   Kept* kept = nullptr) const {
    const int64_t tokens = keys.norms.shape(1);
    const int64_t heads = config_.query_heads;
    const int64_t depth = config_.depth;
    const bool one_pass = tokens <= kOnePassTokens;
    const int64_t block_tokens = one_pass ? tokens : kBlockTokens;
    const int64_t blocks = (tokens + block_tokens - 1) / block_tokens;
    hf::KernelCall call{
        .grid = {static_cast<uint32_t>(blocks * 32), static_cast<uint32_t>(heads), 1},
        .threadgroup = {32, 1, 1},
        .constants = {{"D", depth},
                      {"KEY_BITS", int64_t{config_.key_bits}},
                      {"VALUE_BITS", int64_t{config_.value_bits}},
                      {"KEY_WORDS", keys.words.shape(2)},
                      {"VALUE_WORDS", values.words.shape(2)}},
        .params = {{"token_count", static_cast<uint32_t>(tokens)},
                   {"repeat", static_cast<uint32_t>(heads / config_.kv_heads)},
                   {"block_tokens", static_cast<uint32_t>(block_tokens)},
                   {"scale", 1.0F / std::sqrt(static_cast<float>(depth))}}};
    std::vector<hf::Array> inputs{q,
                                  keys.words,
                                  keys.norms,
                                  values.words,
                                  values.norms,
                                  key_arrays_.signs,
                                  key_arrays_.centroids,
                                  value_arrays_.centroids};
    if (one_pass) {
      inputs.push_back(value_arrays_.signs);
      call.output_shapes = {{heads, depth}};
      call.output_dtypes = {hf::float32};
      return one_pass_(inputs, call)[0];
    }
    call.output_shapes = {{heads, blocks, depth}, {heads, blocks}, {heads, blocks}};
    call.output_dtypes = {hf::float32, hf::float32, hf::float32};
    call.params.push_back({"num_blocks", static_cast<uint32_t>(blocks)});
    const std::vector<hf::Array> parts = blocks_(inputs, call);
    if (kept != nullptr) kept->insert(kept->end(), parts.begin(), parts.end());
    return merge_({parts[0], parts[1], parts[2], value_arrays_.signs},
                  {.grid = {static_cast<uint32_t>(heads * 32), 1, 1},
                   .threadgroup = {32, 1, 1},
                   .output_shapes = {{heads, depth}},
                   .output_dtypes = {hf::float32},
                   .constants = {{"D", depth}},
                   .params = {{"num_blocks", static_cast<uint32_t>(blocks)}}})[0];
  }

 private:
  struct Arrays {
    explicit Arrays(const Quantizer& quantizer)
        : signs(quantizer.signs),
          boundaries(floats(quantizer.codebook.boundaries)),
          centroids(floats(quantizer.codebook.centroids)) {
      hf::eval(signs, boundaries, centroids);
    }
    static std::vector<float> floats(const std::vector<double>& v) { return {v.begin(), v.end()}; }
    hf::Array signs, boundaries, centroids;
  };

  static std::vector<std::string> attention_inputs(std::initializer_list<const char*> more) {
    std::vector<std::string> names{"q",           "key_words", "key_norms",     "value_words",
                                   "value_norms", "key_signs", "key_centroids", "value_centroids"};
    names.insert(names.end(), more.begin(), more.end());
    return names;
  }

  Encoded encode(const hf::Array& rows, const Quantizer& quantizer, const Arrays& arrays) const {
    const int64_t heads = rows.shape(0);
    const int64_t tokens = rows.shape(1);
    const auto words = static_cast<int64_t>(words_of(config_.depth, quantizer.bits));
    std::vector<hf::Array> made = encode_(
        {rows, arrays.signs, arrays.boundaries},
        {.grid = {static_cast<uint32_t>(heads * tokens * 32), 1, 1},
         .threadgroup = {32, 1, 1},
         .output_shapes = {{heads, tokens, words}, {heads, tokens}},
         .output_dtypes = {hf::uint32, hf::float32},
         .constants = {{"D", config_.depth}, {"BITS", int64_t{quantizer.bits}}, {"WORDS", words}}});
    return {std::move(made[0]), std::move(made[1])};
  }

  Config config_;
  Quantizer keys_, values_;
  hf::Kernel encode_, one_pass_, blocks_, merge_;
  Arrays key_arrays_, value_arrays_;
};

// The compressed keys and values of one sequence. It grows in steps: the buffers that it outgrows
// are dropped at once, while earlier steps may still read them on the device.
class Cache {
 public:
  explicit Cache(const Model& model) : model_(&model) {}

  int64_t tokens() const { return tokens_; }
  // float32 [kv heads, any number of tokens, depth]
  void append(const hf::Array& keys, const hf::Array& values, Kept* kept = nullptr) {
    const int64_t more = keys.shape(1);
    grow(tokens_ + more, kept);
    put(keys_, model_->encode_keys(keys), kept);
    put(values_, model_->encode_values(values), kept);
    tokens_ += more;
  }
  hf::Array attend(const hf::Array& q, Kept* kept = nullptr) const {
    Model::Encoded keys = used(keys_);
    Model::Encoded values = used(values_);
    if (kept != nullptr) {
      for (hf::Array* array : {&keys.words, &keys.norms, &values.words, &values.norms}) {
        *array = hf::contiguous(*array);
        kept->push_back(*array);
      }
    }
    return model_->attend(q, keys, values, kept);
  }
  // Schedules all that was appended.
  void schedule() const { hf::async_eval(keys_.words, keys_.norms, values_.words, values_.norms); }

 private:
  // The tokens there are: not contiguous unless the cache is full.
  Model::Encoded used(const Model::Encoded& all) const {
    return {hf::slice(all.words, {{}, {.stop = tokens_}}),
            hf::slice(all.norms, {{}, {.stop = tokens_}})};
  }
  void put(Model::Encoded& all, const Model::Encoded& update, Kept* kept) const {
    if (kept != nullptr) kept->insert(kept->end(), {update.words, update.norms});
    const hf::Slice where{.start = tokens_, .stop = tokens_ + update.norms.shape(1)};
    all.words = hf::slice_update(std::move(all.words), update.words, {{}, where});
    all.norms = hf::slice_update(std::move(all.norms), update.norms, {{}, where});
  }
  void grow(int64_t tokens, Kept* kept) {
    if (tokens <= capacity_) return;
    const int64_t step = model_->config().growth;
    capacity_ = (tokens + step - 1) / step * step;
    replace(keys_, model_->keys().bits, kept);
    replace(values_, model_->values().bits, kept);
  }
  void replace(Model::Encoded& all, int bits, Kept* kept) const {
    const int64_t heads = model_->config().kv_heads;
    const auto words = static_cast<int64_t>(words_of(model_->config().depth, bits));
    Model::Encoded grown{hf::zeros({heads, capacity_, words}, hf::uint32),
                         hf::zeros({heads, capacity_}, hf::float32)};
    if (tokens_ > 0) {
      const Model::Encoded old = used(all);
      const hf::Slice where{.stop = tokens_};
      grown.words = hf::slice_update(std::move(grown.words), old.words, {{}, where});
      grown.norms = hf::slice_update(std::move(grown.norms), old.norms, {{}, where});
      if (kept != nullptr) kept->insert(kept->end(), {all.words, all.norms});
    }
    all = std::move(grown);
  }

  const Model* model_;
  int64_t tokens_ = 0;
  int64_t capacity_ = 0;
  Model::Encoded keys_, values_;
};

// The same sequence in double precision: with the codebook, and without any compression.
class Reference {
 public:
  explicit Reference(const Model& model)
      : model_(&model), heads_(static_cast<size_t>(model.config().kv_heads)) {}

  // One token of one head.
  void append(size_t head, const float* key, const float* value) {
    const auto depth = static_cast<size_t>(model_->config().depth);
    heads_[head].push_back({model_->keys().encode(key).decoded,
                            model_->values().encode(value).decoded,
                            {key, key + depth},
                            {value, value + depth}});
  }

  struct Attention {
    std::vector<double> compressed;  // [query heads, depth]
    // Of the compressed output against the output without compression, over all heads: the
    // distance, and the one that the distortion of the codebooks leads to expect.
    double error = 0;
    double expected_error = 0;
  };
  Attention attend(const std::vector<float>& q) const {
    const Config& config = model_->config();
    const auto depth = static_cast<size_t>(config.depth);
    const auto repeat = static_cast<size_t>(config.query_heads / config.kv_heads);
    const double scale = 1 / std::sqrt(static_cast<double>(depth));
    Attention result;
    double squares = 0;
    double expected_squares = 0;
    for (size_t row = 0; row < static_cast<size_t>(config.query_heads); ++row) {
      const std::vector<Token>& tokens = heads_[row / repeat];
      std::vector<double> query(depth);
      std::vector<double> rotated(depth);
      for (size_t d = 0; d < depth; ++d) {
        query[d] = double{q[row * depth + d]} * scale;
        rotated[d] = query[d] * double{model_->keys().signs[d]};
      }
      hadamard(rotated);
      std::vector<double> out =
          mix(tokens, rotated, &Token::decoded_key, &Token::decoded_value).out;
      hadamard(out);
      for (size_t d = 0; d < depth; ++d) out[d] *= double{model_->values().signs[d]};

      const Mix exact = mix(tokens, query, &Token::key, &Token::value);
      squares += distance_squared(out, exact.out);
      expected_squares += expected(tokens, query, exact);
      result.compressed.insert(result.compressed.end(), out.begin(), out.end());
    }
    result.error = std::sqrt(squares);
    result.expected_error = std::sqrt(expected_squares);
    return result;
  }

 private:
  using Vector = std::vector<double>;
  struct Token {
    Vector decoded_key, decoded_value;  // rotated
    Vector key, value;
  };
  struct Mix {
    Vector weights;  // of the tokens
    Vector out;
  };
  static double dot(const Vector& a, const Vector& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  }
  static double distance_squared(const Vector& a, const Vector& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
  }
  static Mix mix(const std::vector<Token>& tokens, const Vector& query, Vector Token::*key,
                 Vector Token::*value) {
    Mix result;
    double largest = -INFINITY;
    for (const Token& token : tokens) {
      result.weights.push_back(dot(query, token.*key));
      largest = std::max(largest, result.weights.back());
    }
    double sum = 0;
    for (double& w : result.weights) sum += w = std::exp(w - largest);
    result.out.resize(query.size());
    for (size_t t = 0; t < tokens.size(); ++t) {
      result.weights[t] /= sum;
      for (size_t d = 0; d < query.size(); ++d) {
        result.out[d] += result.weights[t] * (tokens[t].*value)[d];
      }
    }
    return result;
  }
  // The mean square of the error, to first order. The error of a key is as likely to point
  // anywhere, so it changes a score by |q| |k| sqrt(distortion / depth), and a weight by as large a
  // share of it; the error of a value counts with the token's weight.
  double expected(const std::vector<Token>& tokens, const Vector& query, const Mix& exact) const {
    const double of_keys = model_->keys().codebook.distortion / static_cast<double>(query.size());
    const double of_values = model_->values().codebook.distortion;
    double sum = 0;
    for (size_t t = 0; t < tokens.size(); ++t) {
      const double w = exact.weights[t];
      const double score = dot(query, query) * dot(tokens[t].key, tokens[t].key) * of_keys;
      sum += w * w *
             (score * distance_squared(tokens[t].value, exact.out) +
              of_values * dot(tokens[t].value, tokens[t].value));
    }
    return sum;
  }

  const Model* model_;
  std::vector<std::vector<Token>> heads_;  // by kv head
};

// The most that a step's output may differ from the reference with the same codebook, relative to
// its largest element: float arithmetic.
constexpr double kTolerance = 2e-5;
// The most that compressed attention may differ from exact attention, as a multiple of what the
// codebooks lead to expect.
constexpr double kErrorBound = 2;

// A sequence that decodes random tokens on the current stream.
class Sequence {
 public:
  struct Findings {
    int64_t checked = 0;
    int64_t wrong = 0;       // further from the reference than kTolerance
    int64_t inaccurate = 0;  // further from exact attention than kErrorBound allows
    double worst_error = 0;
    double worst_ratio = 0;  // of the compression's error to the expected one

    bool all_right() const { return wrong == 0 && inaccurate == 0; }
    void add(const Findings& other) {
      checked += other.checked;
      wrong += other.wrong;
      inaccurate += other.inaccurate;
      worst_error = std::max(worst_error, other.worst_error);
      worst_ratio = std::max(worst_ratio, other.worst_ratio);
    }
  };

  struct Options {
    bool checked = true;   // otherwise outputs are read and not looked at
    size_t in_flight = 4;  // steps that are scheduled before the oldest one's output is read
    bool keep = false;     // the arrays of a step, until its output was read: see Kept
  };
  Sequence(const Model& model, uint64_t seed, const Options& options)
      : model_(&model), random_(seed), options_(options), cache_(model), reference_(model) {}

  int64_t tokens() const { return cache_.tokens(); }

  // Schedules tokens that nothing attends to yet.
  void prefill(int64_t tokens) {
    append(tokens, options_.keep ? &kept_ : nullptr);
    cache_.schedule();
  }

  // Schedules a token and its attention, drops what they were made of, and reads the step that was
  // scheduled `in_flight` steps ago.
  void step() {
    Step next;
    Kept* const kept = options_.keep ? &next.kept : nullptr;
    append(1, kept);
    const Config& config = model_->config();
    std::vector<float> drawn = draw(static_cast<size_t>(config.query_heads * config.depth));
    const hf::Array q(drawn, {config.query_heads, config.depth});
    next.out = cache_.attend(q, kept);
    hf::async_eval(next.out);
    if (kept != nullptr) kept->push_back(q);
    if (options_.checked) next.expected = reference_.attend(drawn);
    steps_.push_back(std::move(next));
    while (steps_.size() > options_.in_flight) check_oldest();
  }
  // Reads all steps that are left.
  void finish() {
    while (!steps_.empty()) check_oldest();
  }
  // Forgets steps that were scheduled and not read.
  void abandon() { steps_.clear(); }

  const Findings& findings() const { return findings_; }

 private:
  struct Step {
    hf::Array out;
    Reference::Attention expected;
    Kept kept;
  };

  std::vector<float> draw(size_t count) {
    std::vector<float> values(count);
    for (float& v : values) v = normal_(random_);
    return values;
  }
  // A row none of whose coordinates lies within rounding of a boundary: there both codes are right.
  std::vector<float> draw_row(const Quantizer& quantizer) {
    for (;;) {
      std::vector<float> row = draw(static_cast<size_t>(model_->config().depth));
      if (!options_.checked || quantizer.encode(row.data()).margin > 1e-6) return row;
    }
  }
  void append(int64_t tokens, Kept* kept) {
    const Config& config = model_->config();
    std::vector<float> keys;
    std::vector<float> values;
    for (int64_t head = 0; head < config.kv_heads; ++head) {
      for (int64_t t = 0; t < tokens; ++t) {
        const std::vector<float> key = draw_row(model_->keys());
        const std::vector<float> value = draw_row(model_->values());
        keys.insert(keys.end(), key.begin(), key.end());
        values.insert(values.end(), value.begin(), value.end());
        if (options_.checked)
          reference_.append(static_cast<size_t>(head), key.data(), value.data());
      }
    }
    const hf::Shape shape{config.kv_heads, tokens, config.depth};
    const hf::Array key_rows(keys, shape);
    const hf::Array value_rows(values, shape);
    cache_.append(key_rows, value_rows, kept);
    if (kept != nullptr) kept->insert(kept->end(), {key_rows, value_rows});
  }
  void check_oldest() {
    const Step step = std::move(steps_.front());
    steps_.pop_front();
    if (options_.keep) step.out.stream().synchronize();  // else nothing says what is done
    const std::vector<float> out = step.out.to_vector<float>();
    if (!options_.checked) return;
    const std::vector<double>& expected = step.expected.compressed;
    double largest = 1e-30;
    double distance = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      const double d = std::abs(double{out[i]} - expected[i]);
      distance = std::isnan(d) ? INFINITY : std::max(distance, d);
    }
    const double error = distance / largest;
    const double ratio = step.expected.error / step.expected.expected_error;
    ++findings_.checked;
    findings_.wrong += error > kTolerance;
    findings_.inaccurate += !(ratio <= kErrorBound);
    findings_.worst_error = std::max(findings_.worst_error, error);
    findings_.worst_ratio = std::max(findings_.worst_ratio, ratio);
  }

  const Model* model_;
  std::mt19937_64 random_;
  std::normal_distribution<float> normal_;
  Options options_;
  Cache cache_;
  Reference reference_;
  std::deque<Step> steps_;
  Kept kept_;  // of prefill
  Findings findings_;
};

}  // namespace turboquant
