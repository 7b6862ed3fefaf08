#include "holdfast/array/compile/function.h"

#include <fmt/format.h>

#include <algorithm>

#include "holdfast/array/apply.h"
#include "holdfast/array/compile/fusion.h"
#include "holdfast/array/compile/shapeless.h"
#include "holdfast/array/node_recorder.h"
#include "holdfast/base/ablation.h"
#include "holdfast/base/log.h"
#include "holdfast/base/never_destroyed.h"
#include "holdfast/base/shown.h"
#include "holdfast/runtime/core.h"
#include "holdfast/views.h"

namespace holdfast::array {
namespace {

// State variables that calls are using now, in this process. Their addresses tell them apart: they
// live as long as the calls.
sync::Guarded<std::vector<const Array*>>& state_in_use() {
  static NeverDestroyed<sync::Guarded<std::vector<const Array*>>> all;
  return all.get();
}

class StateUse {
 public:
  StateUse(const std::vector<Array*>& state, const std::string& name) : state_(state) {
    if (state.empty()) return;
    const auto in_use = state_in_use().lock();
    for (const Array* const variable : state) {
      if (std::ranges::find(*in_use, variable) == in_use->end()) continue;
      throw UsageError(fmt::format(
          "two calls that overlap share state of the compiled function {}: give every thread its "
          "own state, or let one call return before the next begins",
          shown(name)));
    }
    in_use->insert(in_use->end(), state.begin(), state.end());
  }
  ~StateUse() {
    if (state_.empty()) return;
    const auto in_use = state_in_use().lock();
    for (const Array* const variable : state_) std::erase(*in_use, variable);
  }
  StateUse(const StateUse&) = delete;
  StateUse& operator=(const StateUse&) = delete;

 private:
  const std::vector<Array*>& state_;
};

// Puts placeholders into the state variables, and back what was there.
class TracedState {
 public:
  TracedState(const std::vector<Array*>& state, std::span<const Array> placeholders)
      : state_(state) {
    before_.reserve(state.size());
    for (size_t i = 0; i < state.size(); ++i) {
      before_.push_back(std::exchange(*state[i], placeholders[i]));
    }
  }
  ~TracedState() {
    for (size_t i = 0; i < state_.size(); ++i) *state_[i] = std::move(before_[i]);
  }
  TracedState(const TracedState&) = delete;
  TracedState& operator=(const TracedState&) = delete;

 private:
  const std::vector<Array*>& state_;
  std::vector<Array> before_;
};

void check_options(const CompileOptions& options) {
  if (options.max_programs == 0) {
    throw UsageError(
        fmt::format("compile({}): max_programs is 0; it must be at least 1", shown(options.name)));
  }
  for (size_t i = 0; i < options.state.size(); ++i) {
    if (options.state[i] == nullptr) {
      throw UsageError(fmt::format("compile({}): state {} is null", shown(options.name), i));
    }
    const auto begin = options.state.begin();
    const auto same = std::find(begin, begin + static_cast<std::ptrdiff_t>(i), options.state[i]);
    if (same != begin + static_cast<std::ptrdiff_t>(i)) {
      throw UsageError(fmt::format("compile({}): state {} and {} are the same variable",
                                   shown(options.name), same - begin, i));
    }
  }
}

std::string argument_called(size_t i, size_t arguments) {
  return i < arguments ? fmt::format("argument {}", i) : fmt::format("state {}", i - arguments);
}

bool are_on_one_device(std::span<const Array> arrays) {
  return std::ranges::all_of(arrays, [&](const Array& array) {
    return &array.value()->node().stream()->device() ==
           &arrays.front().value()->node().stream()->device();
  });
}

uint64_t mixed(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
  return hash ^ hash >> 32;
}

}  // namespace

CallSignature::CallSignature(CallForm form_of, const DeviceState& device_of,
                             std::span<const Array> arrays)
    : form(std::move(form_of)), device(device_of.info.id) {
  types.reserve(arrays.size());
  hash = mixed(form.types.hash_code(), device.value);
  for (const size_t length : form.lengths) hash = mixed(hash, length);
  for (const Array& array : arrays) {
    ArgumentType& type = types.emplace_back(array);
    if (ablated(Ablation::program_key_without_shape)) continue;
    hash = mixed(hash, static_cast<uint64_t>(type.dtype) << 8 | type.layout.shape.size());
    hash = mixed(hash, static_cast<uint64_t>(type.layout.offset) << 1 | uint64_t{type.whole});
    for (const int64_t length : type.layout.shape) {
      hash = mixed(hash, static_cast<uint64_t>(length));
    }
    for (const int64_t stride : type.layout.strides) {
      hash = mixed(hash, static_cast<uint64_t>(stride));
    }
  }
}

bool CallSignature::operator==(const CallSignature& other) const {
  if (form.types != other.form.types || form.lengths != other.form.lengths ||
      device != other.device || types.size() != other.types.size()) {
    return false;
  }
  return ablated(Ablation::program_key_without_shape) || types == other.types;
}

bool CallSignature::has_ranks_of(const CallSignature& other) const {
  // What is done with an axis of length 1, or none, may be something else for a longer one.
  const auto alike = [](const ArgumentType& a, const ArgumentType& b) {
    const auto same_kind = [](int64_t m, int64_t n) { return m == n || (m > 1 && n > 1); };
    return a.dtype == b.dtype && std::ranges::equal(a.layout.shape, b.layout.shape, same_kind);
  };
  return form.types == other.form.types && form.lengths == other.form.lengths &&
         device == other.device && std::ranges::equal(types, other.types, alike);
}

std::string say_what_varies(std::span<const CallSignature* const> signatures, size_t arguments) {
  const CallSignature& newest = *signatures.front();
  size_t most = 1;
  std::string text = "the number of its arguments varies";
  for (size_t i = 0; i < newest.types.size(); ++i) {
    std::vector<const ArgumentType*> seen;
    for (const CallSignature* const signature : signatures) {
      if (signature->types.size() != newest.types.size()) continue;
      const ArgumentType& type = signature->types[i];
      const bool known =
          std::ranges::any_of(seen, [&](const ArgumentType* other) { return *other == type; });
      if (!known) seen.push_back(&type);
    }
    if (seen.size() <= most) continue;
    most = seen.size();
    const auto told = [&](const char* what, const auto& of) {
      return fmt::format("the {} of {} varies, lately {} and {}", what,
                         argument_called(i, arguments), of(*seen[1]), of(*seen[0]));
    };
    if (seen[0]->layout.shape != seen[1]->layout.shape) {
      text = told("shape", [](const ArgumentType& t) { return to_string(t.layout.shape); });
    } else if (seen[0]->dtype != seen[1]->dtype) {
      text = told("dtype", [](const ArgumentType& t) { return kernel::to_string(t.dtype); });
    } else if (seen[0]->layout.strides != seen[1]->layout.strides) {
      text = told("layout", [](const ArgumentType& t) {
        return fmt::format("strides {}", to_string(t.layout.strides));
      });
    } else {
      text = told("alignment",
                  [](const ArgumentType& t) { return fmt::format("offset {}", t.layout.offset); });
    }
  }
  return text;
}

CompiledFunction::CompiledFunction(CompileOptions options) : options_(std::move(options)) {
  check_options(options_);
  programs_ = std::make_shared<sync::Guarded<Programs>>();
#ifdef HOLDFAST_ABLATIONS
  if (ablated(Ablation::program_by_address)) {
    // As if the heap gave it the address of the function that was dropped last.
    const auto free = vacated().lock();
    if (free->empty()) return;
    programs_ = std::move(free->back());
    free->pop_back();
  }
#endif
}

CompiledFunction::~CompiledFunction() {
#ifdef HOLDFAST_ABLATIONS
  if (ablated(Ablation::program_by_address)) vacated().lock()->push_back(std::move(programs_));
#endif
}

#ifdef HOLDFAST_ABLATIONS
sync::Guarded<std::vector<std::shared_ptr<sync::Guarded<CompiledFunction::Programs>>>>&
CompiledFunction::vacated() {
  static NeverDestroyed<sync::Guarded<std::vector<std::shared_ptr<sync::Guarded<Programs>>>>> all;
  return all.get();
}
#endif

std::string CompiledFunction::called() const {
  return fmt::format("the compiled function {}", shown(options_.name));
}

std::shared_ptr<const CompiledFunction::Entry> CompiledFunction::Programs::find(
    const CallSignature& signature) {
  const auto [begin, end] = by_hash.equal_range(signature.hash);
  for (auto it = begin; it != end; ++it) {
    if (!(it->second->first == signature)) continue;
    entries.splice(entries.begin(), entries, it->second);
    return it->second->second;
  }
  return {};
}

std::shared_ptr<const CompiledFunction::Entry> CompiledFunction::keep(
    CallSignature signature, std::shared_ptr<const Entry> entry) {
  decltype(Programs::entries) dropped;  // with no lock held
  std::string warning;
  {
    const auto programs = programs_->lock();
    // Another thread may have been faster.
    if (std::shared_ptr<const Entry> there = programs->find(signature)) return there;
    const uint64_t hash = signature.hash;
    programs->entries.emplace_front(std::move(signature), entry);
    programs->by_hash.emplace(hash, programs->entries.begin());
    if (programs->entries.size() > options_.max_programs) {
      if (!std::exchange(programs->warned, true)) {
        std::vector<const CallSignature*> all;
        for (const auto& [kept, unused] : programs->entries) all.push_back(&kept);
        const size_t arguments = all.front()->types.size() - options_.state.size();
        warning = say_what_varies(all, arguments);
      }
      const auto last = std::prev(programs->entries.end());
      std::erase_if(programs->by_hash, [&](const auto& known) { return known.second == last; });
      dropped.splice(dropped.begin(), programs->entries, last);
    }
  }
  if (!warning.empty()) {
    logging::warn(logging::Topic::compile,
                  "{} was traced for more than {} signatures, and drops the oldest from now on: "
                  "{}; pad to a few shapes, or raise max_programs",
                  called(), options_.max_programs, warning);
  }
  return entry;
}

std::vector<Array> CompiledFunction::placeholders_of(const CallSignature& signature,
                                                     size_t arguments,
                                                     const Ref<StreamState>& stream) const {
  const On on{Stream(stream)};
  std::vector<Array> placeholders;
  for (size_t i = 0; i < signature.types.size(); ++i) {
    const std::string place = fmt::format("{} of {}", argument_called(i, arguments), called());
    placeholders.push_back(make_placeholder(signature.types[i], place, on));
  }
  return placeholders;
}

std::shared_ptr<const Trace> CompiledFunction::trace(const CallSignature& signature,
                                                     size_t arguments,
                                                     const Ref<StreamState>& stream,
                                                     const FlatFunction& f,
                                                     std::shared_ptr<const void>& form) const {
  std::vector<Array> placeholders = placeholders_of(signature, arguments, stream);
  TracedCall traced;
  std::string obstacle;
  std::unordered_set<const Value*> made;
  {
    const TracedState state(options_.state, std::span(placeholders).subspan(arguments));
    Tracing tracing(options_.shapeless ? called() : std::string());
    for (size_t i = 0; i < placeholders.size(); ++i) {
      if (!signature.types[i].whole) tracing.add_partial(placeholders[i]);
      tracing.add_made(*placeholders[i].value());
    }
    traced = f(std::span(placeholders).first(arguments));
    for (const Array* const variable : options_.state) traced.arrays.push_back(*variable);
    obstacle = tracing.obstacle();
    made = tracing.made();
  }
  for (size_t i = 0; i < traced.arrays.size(); ++i) {
    if (traced.arrays[i].has_value()) continue;
    const size_t results = traced.arrays.size() - options_.state.size();
    throw UsageError(fmt::format("{} {} an Array that shows nothing", called(),
                                 i < results ? "returned" : "left in its state"));
  }
  form = std::move(traced.form);
  auto trace = std::make_shared<Trace>(std::move(placeholders), std::move(traced.arrays));
  trace->met_obstacle = std::move(obstacle);
  for (const Array& constant : trace->constants) {
    const Value& value = *constant.value();
    if (value.shape().empty() || !made.contains(&value)) continue;
    throw UsageError(
        fmt::format("{} is shapeless, and {} makes an array of shape {} inside, from no argument: "
                    "make it outside, or compile the function without shapeless",
                    called(), value.node().describe(), to_string(value.shape())));
  }
  return trace;
}

std::shared_ptr<const Trace> CompiledFunction::trace_for_lengths(
    const CallSignature& signature, size_t arguments, const Ref<StreamState>& stream,
    const FlatFunction& f, std::shared_ptr<const void>& form) const {
  std::shared_ptr<const Shapeless> known;
  {
    const auto programs = programs_->lock();
    const auto found = std::ranges::find_if(programs->shapeless, [&](const auto& traced) {
      return traced->signature.has_ranks_of(signature);
    });
    if (found != programs->shapeless.end()) known = *found;
  }
  if (!known) {
    auto made = std::make_shared<Shapeless>(Shapeless{signature, {}, {}});
    made->trace = trace(signature, arguments, stream, f, made->form);
    stream->device().functions_traced.fetch_add(1, std::memory_order_relaxed);
    // Functions that are not compiled see every call.
    if (!made->trace->obstacle(stream->device()).empty()) {
      form = made->form;
      return made->trace;
    }
    known = made;
  }
  // For the lengths that f has seen, too: what cannot be had for others is refused at once.
  std::vector<Array> placeholders = placeholders_of(signature, arguments, stream);
  std::vector<Array> results = results_for_lengths(*known->trace, placeholders);
  auto made = std::make_shared<Trace>(std::move(placeholders), std::move(results));
  form = known->form;
  std::shared_ptr<const Shapeless> dropped;  // with no lock held
  const auto programs = programs_->lock();
  const bool is_kept = std::ranges::any_of(programs->shapeless, [&](const auto& traced) {
    return traced->signature.has_ranks_of(signature);
  });
  if (!is_kept) {
    if (programs->shapeless.size() == options_.max_programs) {
      dropped = std::move(programs->shapeless.front());
      programs->shapeless.erase(programs->shapeless.begin());
    }
    programs->shapeless.push_back(std::move(known));
  }
  return made;
}

std::shared_ptr<const CompiledFunction::Entry> CompiledFunction::make_entry(
    const CallSignature& signature, size_t arguments, const Ref<StreamState>& stream,
    const FlatFunction& f) const {
  DeviceState& device = stream->device();
  const auto entry = std::make_shared<Entry>();
  std::shared_ptr<const Trace> traced;
  if (options_.shapeless) {
    traced = trace_for_lengths(signature, arguments, stream, f, entry->form);
  } else {
    traced = trace(signature, arguments, stream, f, entry->form);
    device.functions_traced.fetch_add(1, std::memory_order_relaxed);
  }
  const std::string obstacle = traced->obstacle(device);
  if (!obstacle.empty()) {
    logging::note(logging::Topic::compile, "{} is not compiled: {}", called(), obstacle);
    entry->form = {};
    return entry;
  }
  logging::note(logging::Topic::compile, "{} was traced: {} operations, {} constants", called(),
                traced->steps.size(), traced->constants.size());
  std::shared_ptr<const Trace> runs = options_.fuse ? fused(traced) : traced;
  entry->call = make_ref<CompiledCall>(options_.name, std::move(runs), arguments,
                                       options_.check ? std::move(traced) : nullptr);
  return entry;
}

// The trace that runs in its place.
std::shared_ptr<const Trace> CompiledFunction::fused(
    const std::shared_ptr<const Trace>& traced) const {
  Fused fused = fuse(*traced);
  for (const std::string& note : fused.notes) {
    logging::note(logging::Topic::compile, "{}: {}", called(), note);
  }
  if (fused.kernels == 0) return traced;
  return std::make_shared<Trace>(traced->placeholders, std::move(fused.results));
}

TracedCall CompiledFunction::call_uncompiled(DeviceState& device, std::span<const Array> arguments,
                                             const FlatFunction& f) const {
  device.calls_not_compiled.fetch_add(1, std::memory_order_relaxed);
  return f(arguments);
}

TracedCall CompiledFunction::call(const CallForm& form, std::vector<Array> arguments,
                                  const FlatFunction& f) {
  if (is_recording()) {
    throw UsageError(
        fmt::format("an operation's record() calls {}; call it where the node is built", called()));
  }
  if (Tracing::current() != nullptr) {
    if (options_.state.empty()) return f(arguments);
    throw UsageError(
        fmt::format("{} has state and is called while another function is traced; compile the "
                    "outer function alone, with that state",
                    called()));
  }
  const StateUse use(options_.state, options_.name);
  const size_t count = arguments.size();
  std::vector<Array> arrays = std::move(arguments);
  for (const Array* const variable : options_.state) arrays.push_back(*variable);
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].has_value()) continue;
    throw UsageError(fmt::format("{} of {} is an Array that shows nothing",
                                 argument_called(i, count), called()));
  }
  const std::span<const Array> given = std::span(arrays).first(count);
  if (!are_on_one_device(arrays)) {
    logging::note(logging::Topic::compile,
                  "{} is not compiled: its arguments are on several devices", called());
    return call_uncompiled(arrays.front().value()->node().stream()->device(), given, f);
  }
  if (options_.shapeless) {
    for (Array& array : arrays) array = contiguous(array);
  }
  Ref<StreamState> stream = stream_for(arrays, {});
  stream->device().context->core().check_usable();
  CallSignature signature(form, stream->device(), arrays);
  std::shared_ptr<const Entry> entry = programs_->lock()->find(signature);
  if (!entry) {
    entry = make_entry(signature, count, stream, f);
#ifdef HOLDFAST_ABLATIONS
    if (ablated(Ablation::program_keeps_first_state)) {
      auto with_state = std::make_shared<Entry>(*entry);
      with_state->first_state.assign(arrays.begin() + static_cast<std::ptrdiff_t>(count),
                                     arrays.end());
      entry = with_state;
    }
#endif
    entry = keep(std::move(signature), std::move(entry));
  } else if (options_.check && entry->call) {
    std::shared_ptr<const void> unused;
    const std::string changed =
        difference(entry->call->trace(), *trace(signature, count, stream, f, unused));
    if (!changed.empty()) {
      throw UsageError(
          fmt::format("{} computes something else than when it was traced: {}", called(), changed));
    }
  }
  if (!entry->call) return call_uncompiled(stream->device(), given, f);
#ifdef HOLDFAST_ABLATIONS
  std::copy(entry->first_state.begin(), entry->first_state.end(),
            arrays.begin() + static_cast<std::ptrdiff_t>(count));
#endif
  TracedCall called{entry->call->call(arrays, std::move(stream)), entry->form};
  const size_t results = called.arrays.size() - options_.state.size();
  for (size_t i = 0; i < options_.state.size(); ++i) {
    *options_.state[i] = std::move(called.arrays[results + i]);
  }
  called.arrays.resize(results);
  return called;
}

HiddenRef<CompiledFunction> make_compiled(CompileOptions options) {
  return make_ref<CompiledFunction>(std::move(options));
}

TracedCall call_compiled(const HiddenRef<CompiledFunction>& function, const CallForm& form,
                         std::vector<Array> arguments, const FlatFunction& f) {
  return function->call(form, std::move(arguments), f);
}

}  // namespace holdfast::array
