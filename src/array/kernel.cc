#include "holdfast/kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "holdfast/array/apply.h"
#include "holdfast/base/sync/recycled_memory.h"
#include "holdfast/kernel/launch.h"
#include "holdfast/kernel/refusals.h"

namespace holdfast {
namespace {

// One call of a kernel. Node inputs: the kernel's inputs, then in_place; outputs: the kernel's,
// then what becomes of in_place.
class KernelOperation final : public Operation {
 public:
  // Takes what recording needs, and no more: the rest is freed while the allocator still has it at
  // hand.
  KernelOperation(const Kernel& kernel, KernelCall& call)
      : kernel_(kernel),
        grid_(call.grid),
        threadgroup_(call.threadgroup),
        constants_(std::move(call.constants)),
        params_(std::move(call.params)),
        init_value_(call.init_value),
        ensure_row_contiguous_(
            call.ensure_row_contiguous.value_or(kernel_.definition().ensure_row_contiguous)) {}

  static void* operator new(size_t bytes) { return RecycledMemory<KernelOperation>::take(bytes); }
  static void operator delete(void* block) noexcept {
    RecycledMemory<KernelOperation>::give(block);
  }

  std::string_view name() const noexcept override { return kernel_.name(); }

  bool takes_inputs() const noexcept override { return !kernel_.definition().in_place.empty(); }

  void record(Encoder& encoder) const override {
    const kernel::Definition& d = kernel_.definition();
    if (d.in_place.empty() && !init_value_ && takes_as_they_are(encoder.all_inputs())) {
      encoder.launch_alone(kernel_, call_of(encoder.all_inputs(), encoder.all_outputs(), {}));
      return;
    }
    boost::container::small_vector<Operand, 4> inputs;
    boost::container::small_vector<Operand, 2> outputs;
    boost::container::small_vector<Operand, 2> in_place;
    for (size_t i = 0; i < d.in_place.size(); ++i) {
      in_place.push_back(encoder.take(d.inputs.size() + i, d.outputs.size() + i));
    }
    for (size_t i = 0; i < d.inputs.size(); ++i) {
      const Operand& given = encoder.input(i);
      inputs.push_back(takes_as_they_are({&given, 1}) ? given : encoder.contiguous(given));
    }
    for (size_t i = 0; i < d.outputs.size(); ++i) {
      outputs.push_back(encoder.output(i));
      if (init_value_) encoder.fill_elements(outputs.back(), *init_value_);
    }
    encoder.launch(kernel_,
                   call_of({inputs.data(), inputs.size()}, {outputs.data(), outputs.size()},
                           {in_place.data(), in_place.size()}));
  }

 private:
  bool takes_as_they_are(std::span<const Operand> inputs) const {
    return std::all_of(inputs.begin(), inputs.end(), [&](const Operand& x) {
      return ensure_row_contiguous_ ? x.is_row_contiguous() : !x.layout().has_negative_strides();
    });
  }

  Encoder::Launch call_of(std::span<const Operand> inputs, std::span<const Operand> outputs,
                          std::span<const Operand> in_place) const {
    return {.inputs = inputs,
            .outputs = outputs,
            .in_place = in_place,
            .grid = grid_,
            .threadgroup = threadgroup_,
            .constants = constants_,
            .params = params_};
  }

  Kernel kernel_;
  Size3 grid_;
  Size3 threadgroup_;
  std::vector<Constant> constants_;
  std::vector<Param> params_;
  std::optional<Scalar> init_value_;
  bool ensure_row_contiguous_;
};

void check_counts(const Kernel& kernel, const std::vector<Array>& inputs, const KernelCall& call) {
  const kernel::Definition& d = kernel.definition();
  const auto check = [&](const char* what, const std::vector<std::string>& names, size_t given) {
    kernel::check_count(kernel, call.label, what, names, given);
  };
  check("input", d.inputs, inputs.size());
  check("in_place argument", d.in_place, call.in_place.size());
  check("output_shape", d.outputs, call.output_shapes.size());
  check("output_dtype", d.outputs, call.output_dtypes.size());
}

void check_names(const Kernel& kernel, const KernelCall& call) {
  std::vector<std::string_view> constants;
  std::vector<std::string_view> params;
  for (const Constant& constant : call.constants) constants.push_back(constant.name);
  for (const Param& param : call.params) params.push_back(param.name);
  kernel::check_names(kernel.definition(), constants, params).raise_if_any();
}

// Tells which names a call gives.
uint64_t hash_of_names(const KernelCall& call) {
  const std::hash<std::string> hash_of;
  uint64_t hash = call.constants.size() + 1;
  for (const Constant& c : call.constants) hash = hash * 31 + hash_of(c.name);
  for (const Param& p : call.params) hash = hash * 31 + hash_of(p.name);
  return hash | 1;  // zero: none was checked yet
}

}  // namespace

std::vector<Array> Kernel::operator()(std::vector<Array> inputs, KernelCall call) const {
  check_counts(*this, inputs, call);
  for (const Array& a : inputs) (void)a.dtype();
  for (const Array& a : call.in_place) (void)a.dtype();
  const uint64_t names = hash_of_names(call);
  if (content_->checked_names.load(std::memory_order_relaxed) != names) {
    // Reading the text takes long, and calls usually give the same names.
    check_names(*this, call);
    content_->checked_names.store(names, std::memory_order_relaxed);
  }

  array::NodeInputs all(std::make_move_iterator(inputs.begin()),
                        std::make_move_iterator(inputs.end()));
  for (Array& a : call.in_place) all.push_back(std::move(a));
  call.in_place.clear();
  boost::container::small_vector<OutputType, 2> outputs;
  for (size_t i = 0; i < call.output_shapes.size(); ++i) {
    outputs.push_back({call.output_shapes[i], call.output_dtypes[i]});
  }
  for (size_t i = inputs.size(); i < all.size(); ++i) {
    outputs.push_back({all[i].shape(), all[i].dtype()});
  }
  Ref<array::StreamState> stream = array::stream_for({all.data(), all.size()}, call.on);
  kernel::check_threadgroup(*this, call.label, call.threadgroup,
                            stream->device().context->device()->info());
  return array::apply(make_ref<const KernelOperation>(*this, call), std::move(all),
                      {outputs.data(), outputs.size()}, std::move(stream), std::move(call.label));
}

}  // namespace holdfast
