#include "holdfast/array/node_recorder.h"
#include "holdfast/array/compile/capture.h"
#include "holdfast/array/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#include "holdfast/base/ablation.h"
#include "holdfast/base/rounding.h"
#include "holdfast/base/shown.h"
#include "holdfast/base/sync/task_local.h"

namespace holdfast::array {
namespace {

constinit const sync::TaskLocalPointer<const Node> recording;

uint32_t count_users(const NodeInputs& inputs, const Value& value) {
  return static_cast<uint32_t>(std::count_if(
      inputs.begin(), inputs.end(), [&](const Array& a) { return a.value().get() == &value; }));
}

ByteRange bytes_of(const Operand& operand, int64_t elements_reached) {
  const Bytes element = size_of(operand.dtype());
  return {element * static_cast<uint64_t>(operand.layout().offset),
          element * static_cast<uint64_t>(elements_reached)};
}

// Row-contiguous, like every result; the shape was checked when the node was made.
void set_layout_of(const Value& value, Layout& layout) {
  if (!value.bytes()) {
    layout = Layout::row_contiguous(value.shape());
    return;
  }
  layout.shape = value.shape();
  layout.strides = value.shape();  // as many
  layout.offset = 0;
  int64_t stride = 1;
  for (size_t i = layout.shape.size(); i-- > 0;) {
    layout.strides[i] = stride;
    stride *= layout.shape[i];
  }
}

}  // namespace

bool is_recording() noexcept { return recording.get() != nullptr; }

void NodeRecorder::start(Node& node, bool looks_only) {
  node_ = &node;
  device_ = &node.stream()->device();
  looks_only_ = looks_only;
  transaction_ = nullptr;
  calls_native_ = false;
  commands_ = donated_ = copies_ = 0;
  written_ = {};
  written_memory_.clear();
  taken_.clear();
  own_scratch_ = scratch_.size();
  const NodeInputs& inputs = node.inputs();
  resize(inputs_, inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = *inputs[i].value();
    Operand& operand = inputs_[i];
    operand.dtype_ = value.dtype();
    if (inputs[i].view()) {
      operand.layout_ = inputs[i].view()->layout;
    } else {
      set_layout_of(value, operand.layout_);
    }
    if (looks_only) continue;
    // The node keeps its inputs, and they their memory, until it is finished.
    operand.memory_ = Ref<hal::Allocation>::adopt(
        (capture_ == nullptr ? value.memory() : capture_->memory_of(value)).get());
  }
  resize(results_, node.outputs());
  made_.assign(node.outputs(), false);
  for (size_t i = 0; i < node.outputs(); ++i) {
    results_[i].dtype_ = node.output(i).dtype();
    set_layout_of(node.output(i), results_[i].layout_);
  }
}

void NodeRecorder::resize(std::vector<Operand>& operands, size_t size) {
  while (operands.size() > size) operands.pop_back();
  while (operands.size() < size) operands.push_back(Operand());
}

runtime::Transaction& NodeRecorder::transaction() {
  if (transaction_ != nullptr) return *transaction_;
  StreamState* const stream = node_->stream().get();
  const auto found = std::find_if(transactions_.begin(), transactions_.end(),
                                  [&](const auto& t) { return t.first == stream; });
  if (found == transactions_.end()) {
    // Operands and scratch are users of all memory that a node's commands name.
    transactions_.emplace_back(stream,
                               stream->stream()->begin(runtime::Transaction::MemoryUser::caller));
  } else {
    std::iter_swap(found, std::prev(transactions_.end()));
  }
  transaction_ = &transactions_.back().second;
  return *transaction_;
}

// Lets go of the node's memory however recording ends.
class NodeRecorder::Cleanup {
 public:
  explicit Cleanup(NodeRecorder& recorder) noexcept : recorder_(recorder) {}
  ~Cleanup() {
    if (recorder_.transaction_ != nullptr) recorder_.transaction_->roll_back();
    for (Operand& input : recorder_.inputs_) (void)input.memory_.detach();  // borrowed
    for (Operand& result : recorder_.results_) result.memory_.reset();
    recorder_.capture_ = nullptr;
  }
  Cleanup(const Cleanup&) = delete;
  Cleanup& operator=(const Cleanup&) = delete;

 private:
  NodeRecorder& recorder_;
};

NodeRecorder::Outcome NodeRecorder::record(Node& node) {
  // Also while committing and rolling back, where deleters of others may run.
  const sync::TaskLocalPointer<const Node>::Scope scope(recording, &node);
  const Cleanup cleanup(*this);
  start(node, false);
  Encoder encoder(*this);
  node.operation().record(encoder);
  if (looks_only_) return Outcome::lacking;
  for (size_t i = 0; i < results_.size(); ++i) (void)result(i);
  if (transaction_ != nullptr) transaction_->commit();
  transaction_ = nullptr;
  for (size_t i = 0; i < results_.size(); ++i) {
    node.output(i).set_memory(std::move(results_[i].memory_));
  }
  if (donated_ != 0) device_->donated.fetch_add(donated_, std::memory_order_relaxed);
  if (copies_ != 0) device_->hidden_copies.fetch_add(copies_, std::memory_order_relaxed);
  return Outcome::recorded;
}

NodeRecorder::Outcome NodeRecorder::record_into(Capture& capture, Node& node) {
  const sync::TaskLocalPointer<const Node>::Scope scope(recording, &node);
  const Cleanup cleanup(*this);
  capture_ = &capture;
  start(node, false);
  Encoder encoder(*this);
  node.operation().record(encoder);
  if (looks_only_) return Outcome::lacking;
  for (size_t i = 0; i < results_.size(); ++i) {
    capture.set_memory(node.output(i), result(i).memory_);
  }
  transaction().append_to(capture.list());
  capture.end_step(copies_);
  return Outcome::recorded;
}

void NodeRecorder::look(Node& node) {
  const Cleanup cleanup(*this);
  start(node, true);
  Encoder encoder(*this);
  try {
    const sync::TaskLocalPointer<const Node>::Scope scope(recording, &node);
    node.operation().record(encoder);
  } catch (...) {  // NOLINT(bugprone-empty-catch): told when it is recorded
  }
}

Ref<hal::Allocation> NodeRecorder::allocate(Bytes bytes, std::string&& name) {
  if (looks_only_) return {};
  if (capture_ != nullptr) return capture_->allocate(bytes, std::move(name));
  return node_->stream()->stream()->allocate(bytes, std::move(name));
}

const Operand& NodeRecorder::result(size_t i) {
  if (!made_[i]) {
    const std::string& name = node_->output(i).name();
    results_[i].memory_ = allocate(node_->output(i).bytes(),
                                   std::string(name.empty() ? label() : std::string_view(name)));
    made_[i] = true;
  }
  return results_[i];
}

Operand NodeRecorder::temporary(const Shape& shape, Dtype dtype, const char* name) {
  Operand operand;
  operand.dtype_ = dtype;
  operand.layout_ = Layout::row_contiguous(shape);
  operand.memory_ =
      allocate(size_of(dtype) * static_cast<uint64_t>(elements(shape)), std::string(name));
  if (operand.memory_) scratch_.push_back(operand.memory_);
  return operand;
}

bool NodeRecorder::can_take(size_t in, size_t out, Taking how) const {
  const Array& input = node_->inputs()[in];
  const Value& value = *input.value();
  const Value& to = node_->output(out);
  if (made_[out] || value.dtype() != to.dtype() || value.bytes() != to.bytes()) {
    return false;
  }
  if (how == Taking::as_it_is && input.shape() != to.shape()) return false;
  if (!input.is_row_contiguous()) return false;
  // Nobody else can see it: its users are this input, and those that this task is about to drop.
  const size_t own = count_users(node_->inputs(), value);
  if (own != 1) return false;
  if (capture_ != nullptr) return capture_->may_take(value);
  if (!looks_only_ && !value.donatable()) return false;
  if (ablated(Ablation::donated_while_seen)) return true;
  uint32_t spent = 0;
  if (value.users() != 1) {
    for (const Node::Spent& s : spent_) spent += count_users(s.inputs, value);
  }
  if (value.users() != own + spent) return false;
  // Asked after the users: a transfer is one of them until it reads the memory itself.
  return looks_only_ || !value.memory()->is_read_outside();
}

const Operand& NodeRecorder::take(size_t in, size_t out, Taking how) {
  Operand& result = results_[out];
  if (made_[out]) {
    throw UsageError(
        fmt::format("output {} was used before it took input {}; take first", out, in));
  }
  if (can_take(in, out, how)) {
    result.memory_ = inputs_[in].memory_;
    made_[out] = true;
    taken_.push_back(in);
    ++donated_;
    return result;
  }
  Operand from = inputs_[in];
  if (how == Taking::reshaped && from.is_row_contiguous() && from.size() == result.size()) {
    from.layout_.shape = result.layout_.shape;
    from.layout_.strides = result.layout_.strides;
  }
  if (from.dtype() != result.dtype() || from.shape() != result.shape()) {
    throw UsageError(fmt::format("output {} cannot take input {}: dtype or shape differ", out, in));
  }
  Encoder(*this).copy_elements(from, this->result(out));
  ++copies_;
  taken_.push_back(in);
  return result;
}

void NodeRecorder::check_input(size_t i) const {
  if (i >= inputs_.size()) refuse_argument("input", i, inputs_.size());
}

void NodeRecorder::check_output(size_t i) const {
  if (i >= results_.size()) refuse_argument("output", i, results_.size());
}

void NodeRecorder::refuse_argument(const char* kind, size_t i, size_t count) const {
  throw UsageError(fmt::format("{} asks for {} {}: there is no {} {} among its {} {}{}",
                               shown(node_->operation().name()), kind, i, kind, i, count, kind,
                               count == 1 ? "" : "s"));
}

void NodeRecorder::check_writable(const Operand& operand) const {
  const auto is_it = [&](const Operand& other) {
    return operand.memory_ && other.memory_ == operand.memory_;
  };
  if (std::ranges::any_of(results_, is_it)) return;
  const auto own = std::span(scratch_).subspan(own_scratch_);
  if (std::ranges::find(own, operand.memory_) != own.end()) return;
  const std::string name = shown(node_->operation().name());
  const auto input = std::ranges::find_if(inputs_, is_it);
  if (input != inputs_.end()) {
    throw UsageError(fmt::format(
        "{} writes to its input {} ({}), and arrays never change; write to an output, or take() "
        "the input into one",
        name, input - inputs_.begin(), operand.memory_->describe()));
  }
  throw UsageError(fmt::format(
      "{} writes to {}, which is none of its outputs and no scratch of this call; an operand is "
      "of use only to the encoder that gave it",
      name, operand.memory_ ? operand.memory_->describe() : "no memory"));
}

hal::Binding NodeRecorder::bind(const Operand& operand, hal::Access access) const {
  if (access != hal::Access::read) check_writable(operand);
  if (!operand.is_row_contiguous()) {
    throw UsageError(
        fmt::format("'{}' copies or fills an operand that is not row-contiguous; use "
                    "copy_elements or fill_elements",
                    node_->operation().name()));
  }
  return hal::Binding::of(operand.memory_, bytes_of(operand, operand.size()), access);
}

hal::Binding NodeRecorder::bind_reached(const Operand& operand, hal::Access access) const {
  if (access != hal::Access::read) check_writable(operand);
  const Reach reached = reach(operand.layout());
  const Bytes element = size_of(operand.dtype());
  return hal::Binding::of(operand.memory_,
                          {element * static_cast<uint64_t>(reached.first),
                           element * static_cast<uint64_t>(reached.last - reached.first + 1)},
                          access);
}

std::string_view NodeRecorder::label() const noexcept {
  return node_->label().empty() ? node_->operation().name() : std::string_view(node_->label());
}

void NodeRecorder::count(const Operand& written) {
  written_ += size_of(written.dtype()) * static_cast<uint64_t>(written.size());
  written_memory_.push_back(written.memory_.get());
}

bool NodeRecorder::has_written(std::span<const Operand> operands) const noexcept {
  return std::any_of(operands.begin(), operands.end(), [this](const Operand& o) {
    return std::find(written_memory_.begin(), written_memory_.end(), o.memory_.get()) !=
           written_memory_.end();
  });
}

void NodeRecorder::launch(const Kernel& kernel, const Encoder::Launch& launch, bool alone) {
  boost::container::small_vector<kernel::ArrayRef, 8> refs;
  const std::array groups{launch.inputs, launch.in_place, launch.outputs};
  for (const std::span<const Operand> operands : groups) {
    for (const Operand& o : operands) {
      refs.emplace_back(o.memory_, o.dtype_, o.layout_.shape.span(), o.layout_.strides.span(),
                        size_of(o.dtype_) * static_cast<uint64_t>(o.layout_.offset));
    }
  }
  const std::span<const kernel::ArrayRef> all(refs.data(), refs.size());
  const size_t inputs = launch.inputs.size();
  const size_t read = inputs + launch.in_place.size();
  const kernel::Launch full{
      .inputs = all.first(inputs),
      .outputs = all.subspan(read),
      .in_place = all.subspan(inputs, read - inputs),
      .grid = launch.grid,
      .threadgroup = launch.threadgroup,
      .constants = launch.constants,
      .params = launch.params,
      .work_per_thread = launch.work_per_thread,
      // What a fill or an earlier kernel left there is part of the result.
      .keeps_outputs = commands_ != 0 && has_written(launch.outputs),
      .label = node_->label(),
  };
  const kernel::PreparedLaunch* const prepared = resolver_.find(device_->kernels, kernel, full);
  if (prepared == nullptr) looks_only_ = true;
  if (looks_only_) return;
  for (const std::span<const Operand> written : {launch.outputs, launch.in_place}) {
    for (const Operand& o : written) check_writable(o);
  }
  // Where it is alone, and nothing can fail behind it, it fails as a whole.
  const bool all_made = std::ranges::all_of(made_, std::identity());
  if (alone && all_made && transaction_ == nullptr && capture_ == nullptr) {
    written_memory_.reserve(written_memory_.size() + launch.outputs.size() +
                            launch.in_place.size());
    prepared->record(*node_->stream()->stream(), kernel, full);
  } else {
    prepared->record(transaction(), kernel, full);
  }
  ++commands_;
  for (const Operand& o : launch.outputs) count(o);
  for (const Operand& o : launch.in_place) count(o);
}

void NodeRecorder::transfer() {
  const Operand& from = inputs_[0];
  const Operand& to = result(0);
  if (looks_only_ || to.size() == 0) return;
  const Array& source = node_->inputs()[0];
  // Nobody takes memory that is read outside to write to it: see can_take.
  node_->stream()->stream()->copy_from(*source.value()->node().stream()->stream(),
                                       bind(from, hal::Access::read), bind(to, hal::Access::write),
                                       runtime::Stream::Source::unchanged, label());
  ++commands_;
  count(to);
}

void NodeRecorder::replay(const Ref<hal::Program>& program, std::span<const hal::Binding> slots) {
  transaction().commit();
  node_->stream()->stream()->replay(program, slots, {}, label());
  ++commands_;
}

}  // namespace holdfast::array

namespace holdfast {

int64_t Operand::size() const noexcept {
  int64_t size = 1;
  for (const int64_t length : layout_.shape) size *= length;
  return size;
}

Operand::Operand() = default;
Operand::Operand(const Operand&) = default;
Operand::Operand(Operand&&) noexcept = default;
Operand& Operand::operator=(const Operand&) = default;
Operand& Operand::operator=(Operand&&) noexcept = default;
Operand::~Operand() = default;

Operand Operand::with_layout(const Layout& layout) const {
  const array::Reach reached = array::reach(layout);
  Operand other = *this;
  if (reached.last < reached.first) {
    // No elements lie anywhere, however far the offset is.
    other.layout_ = Layout::row_contiguous(layout.shape);
    return other;
  }
  if (memory_) {
    const uint64_t count = memory_->size().value / size_of(dtype_).value;
    if (reached.first < 0 || static_cast<uint64_t>(reached.last) >= count) {
      throw UsageError(fmt::format(
          "an operand of shape {} with strides {} from offset {} reaches the elements {} to {} of "
          "{}, which has {} elements",
          to_string(layout.shape), to_string(layout.strides), layout.offset, reached.first,
          reached.last, memory_->describe(), count));
    }
  }
  other.layout_ = layout;
  return other;
}

Operand Operand::viewed_as(Dtype dtype) const {
  if (size_of(dtype) != size_of(dtype_)) {
    throw UsageError(fmt::format("{} cannot be viewed as {}: their sizes differ",
                                 kernel::to_string(dtype_), kernel::to_string(dtype)));
  }
  Operand other = *this;
  other.dtype_ = dtype;
  return other;
}

std::vector<Shape> Operation::output_shapes(std::span<const Shape> /*inputs*/,
                                            std::span<const Shape> /*before*/) const {
  return {};
}

size_t Encoder::inputs() const noexcept { return recorder_.inputs_.size(); }
const Operand& Encoder::input(size_t i) const {
  const auto& taken = recorder_.taken_;
  if (std::find(taken.begin(), taken.end(), i) != taken.end()) {
    throw UsageError(fmt::format("input {} was taken by an output; use that instead", i));
  }
  recorder_.check_input(i);
  return recorder_.inputs_[i];
}
std::span<const Operand> Encoder::all_inputs() const { return recorder_.inputs_; }
size_t Encoder::outputs() const noexcept { return recorder_.results_.size(); }
std::span<const Operand> Encoder::all_outputs() {
  for (size_t i = 0; i < outputs(); ++i) (void)recorder_.result(i);
  return recorder_.results_;
}
const Operand& Encoder::output(size_t i) {
  recorder_.check_output(i);
  return recorder_.result(i);
}
const Operand& Encoder::take(size_t in, size_t out) {
  recorder_.check_input(in);
  recorder_.check_output(out);
  return recorder_.take(in, out);
}
bool Encoder::can_take(size_t in, size_t out) const {
  recorder_.check_input(in);
  recorder_.check_output(out);
  return recorder_.can_take(in, out);
}

Operand Encoder::scratch(const Shape& shape, Dtype dtype) {
  return recorder_.temporary(shape, dtype, "scratch");
}
Operand Encoder::scratch(Bytes bytes) {
  // Rows as few and as short as will do.
  constexpr uint64_t longest = std::numeric_limits<int32_t>::max();
  const uint64_t rows = ceil_div(bytes.value, longest);
  if (rows <= 1) {
    return recorder_.temporary({static_cast<int64_t>(bytes.value)}, Dtype::uint8, "scratch");
  }
  const uint64_t length = ceil_div(bytes.value, rows);
  return recorder_.temporary({static_cast<int64_t>(rows), static_cast<int64_t>(length)},
                             Dtype::uint8, "scratch");
}

Operand Encoder::contiguous(const Operand& operand) {
  if (operand.is_row_contiguous()) return operand;
  Operand copied = recorder_.temporary(operand.shape(), operand.dtype(), "contiguous copy");
  copy_elements(operand, copied);
  ++recorder_.copies_;
  return copied;
}

void Encoder::launch(const Kernel& kernel, const Launch& launch) {
  recorder_.launch(kernel, launch, false);
}
void Encoder::launch_alone(const Kernel& kernel, const Launch& launch) {
  recorder_.launch(kernel, launch, true);
}

void Encoder::copy(const Operand& from, const Operand& to) {
  if (recorder_.looks_only_ || to.size() == 0) return;
  recorder_.transaction().copy(recorder_.bind(from, hal::Access::read),
                               recorder_.bind(to, hal::Access::write), recorder_.label());
  ++recorder_.commands_;
  recorder_.count(to);
}

void Encoder::fill(const Operand& to, std::byte value) {
  if (recorder_.looks_only_ || to.size() == 0) return;
  recorder_.transaction().fill(recorder_.bind(to, hal::Access::write), value, recorder_.label());
  ++recorder_.commands_;
  recorder_.count(to);
}

void Encoder::native(hal::NativeCallback callback, std::span<const Operand> reads,
                     std::span<const Operand> writes) {
  recorder_.calls_native_ = true;
  if (recorder_.looks_only_) return;
  std::vector<hal::Binding> bindings;
  for (const Operand& o : reads) bindings.push_back(recorder_.bind(o, hal::Access::read));
  for (const Operand& o : writes) bindings.push_back(recorder_.bind(o, hal::Access::write));
  recorder_.transaction().native(std::move(callback), bindings, recorder_.label());
  ++recorder_.commands_;
  for (const Operand& o : writes) recorder_.count(o);
}

const hal::DeviceInfo& Encoder::device() const noexcept { return recorder_.device_->info; }

}  // namespace holdfast
