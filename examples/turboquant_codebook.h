#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

// The quantiser of TurboQuant on the host: the codebook, the rotation and the packed bits, in
// double precision.

namespace turboquant {

// The best centroids for a coordinate of a random unit vector of `depth` dimensions, whose density
// is proportional to (1 - x^2)^((depth - 3) / 2). All numbers are floats, as the device has them.
struct Codebook {
  std::vector<double> centroids;   // 2^bits, ascending
  std::vector<double> boundaries;  // the midpoints between them
  double distortion = 0;           // the mean of |u - decoded(u)|^2 over unit vectors u
};

// Integrals of that density over [-1, x].
class Density {
 public:
  explicit Density(int64_t depth) : power_(static_cast<double>(depth - 3) / 2) {
    below_.resize(kCells + 1);
    for (size_t i = 0; i < kCells; ++i) {
      const double x = at(i);
      const double middle = x + kCell / 2;
      below_[i + 1] = below_[i] + kCell / 6 * (value(x) + 4 * value(middle) + value(at(i + 1)));
    }
  }
  double mass(double x) const {
    const auto i = std::min(static_cast<size_t>((x + 1) / kCell), kCells - 1);
    const double width = x - at(i);
    return below_[i] + width / 6 * (value(at(i)) + 4 * value(at(i) + width / 2) + value(x));
  }
  // Of x times the density.
  double moment(double x) const { return -std::pow(inside(x), power_ + 1) / (2 * (power_ + 1)); }

 private:
  static constexpr size_t kCells = 4096;
  static constexpr double kCell = 2.0 / kCells;
  static double at(size_t cell) { return -1 + static_cast<double>(cell) * kCell; }
  static double inside(double x) { return std::max(0.0, 1 - x * x); }
  double value(double x) const { return std::pow(inside(x), power_); }

  double power_;
  std::vector<double> below_;
};

inline std::vector<double> midpoints(const std::vector<double>& centroids) {
  std::vector<double> middles;
  for (size_t i = 0; i + 1 < centroids.size(); ++i) {
    middles.push_back((centroids[i] + centroids[i + 1]) / 2);
  }
  return middles;
}

// The mean of |u - decoded(u)|^2 with these centroids.
inline double distortion_of(const Density& density, int64_t depth,
                            const std::vector<double>& centroids) {
  std::vector<double> edges = midpoints(centroids);
  edges.insert(edges.begin(), -1);
  edges.push_back(1);
  // The mean of x^2 is 1 / depth, so the sum over all coordinates begins with 1.
  double distortion = 1;
  for (size_t i = 0; i < centroids.size(); ++i) {
    const double c = centroids[i];
    const double mass = density.mass(edges[i + 1]) - density.mass(edges[i]);
    const double moment = density.moment(edges[i + 1]) - density.moment(edges[i]);
    distortion += static_cast<double>(depth) * (c * c * mass - 2 * c * moment) / density.mass(1);
  }
  return distortion;
}

// Lloyd and Max: each centroid moves to the mean of its cell until none moves.
inline Codebook make_codebook(int64_t depth, int bits) {
  const Density density(depth);
  const size_t count = size_t{1} << bits;
  std::vector<double> centroids(count);
  for (size_t i = 0; i < count; ++i) {
    const double along = (2 * static_cast<double>(i) + 1) / static_cast<double>(count) - 1;
    centroids[i] = std::min(0.9, 3 / std::sqrt(static_cast<double>(depth))) * along;
  }
  for (double moved = 1; moved > 1e-9;) {
    std::vector<double> edges = midpoints(centroids);
    edges.insert(edges.begin(), -1);
    edges.push_back(1);
    moved = 0;
    // The density is symmetric, and so are the centroids.
    for (size_t i = count / 2; i < count; ++i) {
      const double mean = (density.moment(edges[i + 1]) - density.moment(edges[i])) /
                          (density.mass(edges[i + 1]) - density.mass(edges[i]));
      moved = std::max(moved, std::abs(mean - centroids[i]));
      centroids[i] = mean;
      centroids[count - 1 - i] = -mean;
    }
  }
  Codebook book;
  for (const double c : centroids) book.centroids.push_back(static_cast<float>(c));
  for (const double b : midpoints(centroids)) book.boundaries.push_back(static_cast<float>(b));
  book.distortion = distortion_of(density, depth, centroids);
  return book;
}

// In place: the Walsh-Hadamard transform, made orthonormal; it is its own inverse.
inline void hadamard(std::vector<double>& x) {
  for (size_t span = 1; span < x.size(); span *= 2) {
    for (size_t i = 0; i < x.size() / 2; ++i) {
      const size_t a = i / span * 2 * span + i % span;
      const double lower = x[a];
      const double upper = x[a + span];
      x[a] = lower + upper;
      x[a + span] = lower - upper;
    }
  }
  for (double& v : x) v /= std::sqrt(static_cast<double>(x.size()));
}

inline size_t words_of(int64_t depth, int bits) {
  return (static_cast<size_t>(depth * bits) + 31) / 32;
}

// Little-endian: a value may lie in two words.
inline std::vector<uint32_t> packed(const std::vector<uint32_t>& codes, int bits) {
  std::vector<uint32_t> words(words_of(static_cast<int64_t>(codes.size()), bits));
  for (size_t i = 0; i < codes.size(); ++i) {
    for (size_t b = 0; b < static_cast<size_t>(bits); ++b) {
      const size_t at = i * static_cast<size_t>(bits) + b;
      words[at / 32] |= ((codes[i] >> b) & 1U) << (at % 32);
    }
  }
  return words;
}

// How keys, or values, are compressed.
struct Quantizer {
  Quantizer(int64_t depth, int code_bits, std::vector<float> random_signs)
      : bits(code_bits), codebook(make_codebook(depth, bits)), signs(std::move(random_signs)) {}

  struct Row {
    double norm = 0;
    std::vector<uint32_t> codes;
    // The decoded row, rotated as it was encoded.
    std::vector<double> decoded;
    // The least distance of a coordinate from a boundary: where it is within rounding, either code
    // is right.
    double margin = 1;
  };
  Row encode(const float* row) const {
    Row result;
    std::vector<double> y(signs.size());
    for (size_t d = 0; d < y.size(); ++d) {
      y[d] = double{row[d]} * double{signs[d]};
      result.norm += y[d] * y[d];
    }
    result.norm = std::sqrt(result.norm);
    hadamard(y);
    for (double& v : y) {
      v = result.norm > 1e-8 ? v / result.norm : 0;
      const auto above =
          std::lower_bound(codebook.boundaries.begin(), codebook.boundaries.end(), v);
      const auto code = static_cast<uint32_t>(above - codebook.boundaries.begin());
      if (result.norm > 1e-8) {
        if (above != codebook.boundaries.end()) result.margin = std::min(result.margin, *above - v);
        if (code > 0) result.margin = std::min(result.margin, v - codebook.boundaries[code - 1]);
      }
      result.codes.push_back(code);
      result.decoded.push_back(result.norm * codebook.centroids[code]);
    }
    return result;
  }

  int bits;
  Codebook codebook;
  std::vector<float> signs;  // +1 or -1
};

}  // namespace turboquant
