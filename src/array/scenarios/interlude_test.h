#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "holdfast/array/scenarios/array_rig_test.h"
#include "holdfast/operation.h"

namespace holdfast {

// One evaluation is one list.
inline constexpr SubmitLimits kOneList{
    .commands = 1'000'000, .bytes = 1_GiB, .time = std::chrono::hours(1)};

// The array, unchanged; whoever records it calls `action` first: between the nodes before it, which
// are recorded and not submitted, and those after it. Called again for each dry run.
inline Array interlude(Array array, std::function<void()> action) {
  class Interlude final : public Operation {
   public:
    explicit Interlude(std::function<void()> action) : action_(std::move(action)) {}
    std::string_view name() const noexcept override { return "interlude"; }
    bool takes_inputs() const noexcept override { return true; }
    void record(Encoder& encoder) const override {
      action_();
      (void)encoder.take(0, 0);
    }

   private:
    std::function<void()> action_;
  };
  const OutputType type{array.shape(), array.dtype()};
  const std::vector<Array> inputs{std::exchange(array, Array())};
  return apply(make_ref<const Interlude>(std::move(action)), inputs, type);
}

inline std::vector<float> mapped(std::vector<float> values, float scale, float offset) {
  for (float& v : values) v = v * scale + offset;
  return values;
}

inline std::vector<Float16> halves(const std::vector<float>& values) {
  std::vector<Float16> result;
  for (const float v : values) result.emplace_back(v);
  return result;
}

inline std::vector<float> floats(const std::vector<Float16>& values) {
  std::vector<float> result;
  for (const Float16 v : values) result.push_back(static_cast<float>(v));
  return result;
}

// What the stream records from now on stays in flight until the gate opens.
inline void hold(const Stream& stream, const testing::Gate& gate) {
  stream.runtime_stream()->wait_for(gate.point());
}

}  // namespace holdfast
