#include "holdfast/kernel/prepared_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "holdfast/base/rounding.h"
#include "holdfast/base/shown.h"
#include "holdfast/kernel/refusals.h"

namespace holdfast::kernel {
namespace {

using Arrays = boost::container::small_vector<const ArrayRef*, 8>;

// Inputs, in_place, outputs: the order of all that is kept for each argument.
Arrays arrays_of(const Launch& launch) {
  Arrays all(launch.inputs.size() + launch.in_place.size() + launch.outputs.size(),
             boost::container::default_init);
  const ArrayRef** at = all.data();
  for (const auto arrays : {launch.inputs, launch.in_place, launch.outputs}) {
    for (const ArrayRef& array : arrays) *at++ = &array;
  }
  return all;
}

size_t place_of(const BindingUse& use, const Launch& launch) {
  size_t place = use.index;
  if (use.group != ArgumentGroup::input) place += launch.inputs.size();
  if (use.group == ArgumentGroup::output) place += launch.in_place.size();
  return place;
}

std::string name_of(const Kernel& kernel, size_t place) {
  const Definition& d = kernel.definition();
  for (const auto* names : {&d.inputs, &d.in_place, &d.outputs}) {
    if (place < names->size()) return shown((*names)[place]);
    place -= names->size();
  }
  return "an argument";
}

void check_counts(const Kernel& kernel, const Launch& launch) {
  const Definition& d = kernel.definition();
  check_count(kernel, launch.label, "input", d.inputs, launch.inputs.size());
  check_count(kernel, launch.label, "output", d.outputs, launch.outputs.size());
  check_count(kernel, launch.label, "in_place argument", d.in_place, launch.in_place.size());
}

// From the first element to the last one that is reached.
uint64_t elements_of(const Kernel& kernel, const Launch& launch, const ArrayRef& array,
                     std::string_view name, CheckedArguments::Argument& argument) {
  uint64_t contiguous = 1;
  uint64_t last = 0;
  bool empty = false;
  bool overflow = false;
  for (size_t i = array.shape.size(); i-- > 0;) {
    const int64_t length = array.shape[i];
    if (length < 0 || length > INT32_MAX) {
      refuse(kernel, launch.label,
             fmt::format("dimension {} of {} has a length of {}", i, shown(name), length));
    }
    const int64_t stride =
        array.strides.empty() ? static_cast<int64_t>(contiguous) : array.strides[i];
    if (stride < 0) {
      refuse(kernel, launch.label,
             fmt::format("dimension {} of {} has a stride of {}; give the kernel a copy without "
                         "negative strides",
                         i, shown(name), stride));
    }
    argument.strides[i] = stride;
    empty = empty || length == 0;
    uint64_t reach = 0;
    overflow |= __builtin_mul_overflow(static_cast<uint64_t>(std::max<int64_t>(length, 1) - 1),
                                       static_cast<uint64_t>(stride), &reach);
    overflow |= __builtin_add_overflow(last, reach, &last);
    overflow |= __builtin_mul_overflow(contiguous, static_cast<uint64_t>(length), &contiguous);
  }
  if (empty) return 0;
  if (overflow || last > (uint64_t{1} << 59)) {
    refuse(kernel, launch.label, fmt::format("{} reaches further than any memory", shown(name)));
  }
  argument.dense = contiguous >= last + 1;
  return last + 1;
}

CheckedArguments::Argument checked(const Kernel& kernel, const Launch& launch,
                                   const ArrayRef& array, std::string_view name, bool written) {
  CheckedArguments::Argument argument;
  argument.written = written;
  if (array.shape.size() > kMaxRank) {
    refuse(kernel, launch.label,
           fmt::format("{} has {} dimensions, and {} are the most", shown(name), array.shape.size(),
                       kMaxRank));
  }
  if (!array.strides.empty() && array.strides.size() != array.shape.size()) {
    refuse(kernel, launch.label,
           fmt::format("{} has {} dimensions and {} strides", shown(name), array.shape.size(),
                       array.strides.size()));
  }
  const uint64_t element = size_of(array.dtype).value;
  if (array.offset.value % element != 0) {
    refuse(kernel, launch.label,
           fmt::format("{} begins at byte {}, which is no multiple of its element's {}",
                       shown(name), array.offset.value, element));
  }
  argument.range = {array.offset, {elements_of(kernel, launch, array, name, argument) * element}};
  return argument;
}

template <typename T>
void store(std::byte* at, const T& value) {
  std::memcpy(at, &value, sizeof(value));
}

// A native's own size is in its code: with another, threads would be missing or too many.
void check_group(const Kernel& kernel, const Launch& launch, const Variant& variant) {
  const Size3& given = launch.threadgroup;
  if (!variant.group || *variant.group == given) return;
  const Size3& own = *variant.group;
  refuse(kernel, launch.label,
         fmt::format("its native has groups of {} x {} x {} threads, and the call's threadgroup is "
                     "{} x {} x {}; give it the native's size",
                     own.x, own.y, own.z, given.x, given.y, given.z));
}

template <typename Arguments>
void check_memory_of(const Kernel& kernel, const Launch& launch, const Arrays& arrays,
                     const Arguments& arguments) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    const hal::Allocation* const memory = arrays[i]->memory;
    if (memory == nullptr) {
      refuse(kernel, launch.label, fmt::format("{} has no memory", name_of(kernel, i)));
    }
    if (arguments[i].range.fits_in(memory->size())) continue;
    refuse(kernel, launch.label,
           fmt::format("{} needs {} from byte {} on, and {} has {}", name_of(kernel, i),
                       to_string(arguments[i].range.length), arguments[i].range.offset.value,
                       memory->describe(), to_string(memory->size())));
  }
  for (size_t a = 0; a < arrays.size(); ++a) {
    if (!arguments[a].written) continue;
    for (size_t b = 0; b < arrays.size(); ++b) {
      if (a == b || arrays[a]->memory != arrays[b]->memory ||
          !arguments[a].range.overlaps(arguments[b].range)) {
        continue;
      }
      refuse(kernel, launch.label,
             fmt::format("{}, which it writes, shares bytes of {} with {}; give such memory "
                         "once, as an in_place argument",
                         name_of(kernel, a), arrays[a]->memory->describe(), name_of(kernel, b)));
    }
  }
}

uint64_t packed(uint32_t low, uint32_t high) { return low | uint64_t{high} << 32; }

// Gives `take` the words that decide what a launch records, until it refuses one.
template <typename Take>
bool each_word(const Kernel& kernel, const Launch& launch, const Take& take) {
  const auto text = [&](std::string_view characters) {
    if (!take(characters.size())) return false;
    for (size_t at = 0; at < characters.size(); at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, &characters[at], std::min(sizeof word, characters.size() - at));
      if (!take(word)) return false;
    }
    return true;
  };
  if (!take(kernel.id().value) ||
      !take(launch.inputs.size() | launch.in_place.size() << 20 | launch.outputs.size() << 40 |
            uint64_t{launch.keeps_outputs} << 60) ||
      !take(packed(launch.grid.x, launch.grid.y)) ||
      !take(packed(launch.grid.z, launch.threadgroup.x)) ||
      !take(packed(launch.threadgroup.y, launch.threadgroup.z)) ||
      !take(packed(launch.work_per_thread, static_cast<uint32_t>(launch.constants.size()))) ||
      !take(launch.params.size())) {
    return false;
  }
  for (const auto arrays : {launch.inputs, launch.in_place, launch.outputs}) {
    for (const ArrayRef& array : arrays) {
      if (!take(static_cast<uint64_t>(array.dtype) | array.shape.size() << 8 |
                array.strides.size() << 32) ||
          !take(array.offset.value)) {
        return false;
      }
      for (const int64_t length : array.shape) {
        if (!take(static_cast<uint64_t>(length))) return false;
      }
      for (const int64_t stride : array.strides) {
        if (!take(static_cast<uint64_t>(stride))) return false;
      }
    }
  }
  for (const Constant& constant : launch.constants) {
    if (!text(constant.name) || !take(constant.value.index()) ||
        !take(std::visit([](const auto& value) { return static_cast<uint64_t>(value); },
                         constant.value))) {
      return false;
    }
  }
  for (const Param& param : launch.params) {
    if (!text(param.name) || !take(static_cast<uint64_t>(param.value.dtype))) return false;
  }
  return true;
}

}  // namespace

LaunchForm::LaunchForm(const Kernel& kernel, const Launch& launch) {
  each_word(kernel, launch, [this](uint64_t word) {
    words_.push_back(word);
    return true;
  });
}

bool LaunchForm::is_of(const Kernel& kernel, const Launch& launch) const noexcept {
  const uint64_t* at = words_.data();
  const uint64_t* const end = at + words_.size();
  return each_word(kernel, launch, [&](uint64_t word) { return at != end && *at++ == word; }) &&
         at == end;
}

CheckedArguments::CheckedArguments(const Kernel& kernel, const Launch& launch,
                                   const hal::DeviceInfo& device) {
  check_counts(kernel, launch);
  check_threadgroup(kernel, launch.label, launch.threadgroup, device);
  const Definition& d = kernel.definition();
  const auto add = [&](std::span<const ArrayRef> arrays, std::span<const std::string> names,
                       bool written) {
    for (size_t i = 0; i < arrays.size(); ++i) {
      all_.push_back(checked(kernel, launch, arrays[i], names[i], written));
    }
  };
  add(launch.inputs, d.inputs, false);
  add(launch.in_place, d.in_place, true);
  add(launch.outputs, d.outputs, true);
}

void CheckedArguments::check_memory(const Kernel& kernel, const Launch& launch) const {
  check_memory_of(kernel, launch, arrays_of(launch), all_);
}

PreparedLaunch::PreparedLaunch(const Kernel& kernel, const Launch& launch,
                               const CheckedArguments& checked, Ref<const Variant> variant,
                               const Target& target)
    : variant_(std::move(variant)) {
  check_group(kernel, launch, *variant_);
  const Interface& interface = variant_->interface;
  for (const CheckedArguments::Argument& argument : checked.all()) {
    arguments_.push_back(argument);
  }
  for (const BindingUse& use : interface.bindings) {
    const size_t place = place_of(use, launch);
    // An output with gaps leaves what lies in them as it was: it must be good before.
    const bool keeps_some =
        use.access == hal::Access::write && (!checked.all()[place].dense || launch.keeps_outputs);
    bindings_.push_back(
        {static_cast<uint32_t>(place), keeps_some ? hal::Access::read_write : use.access});
  }
  if (launch.grid.empty()) return;
  parameters_.resize(interface.parameter_bytes.value);
  const Arrays arrays = arrays_of(launch);
  fill_fields(launch, checked, {arrays.data(), arrays.size()});
  const LaunchShape shape{launch.grid, launch.threadgroup, launch.work_per_thread};
  if (const Failure refused = target.cut(interface, shape, parts_)) {
    refuse(kernel, launch.label, refused.message());
  }
}

void PreparedLaunch::fill_fields(const Launch& launch, const CheckedArguments& checked,
                                 std::span<const ArrayRef* const> arrays) {
  for (const ParameterField& field : variant_->interface.fields) {
    std::byte* const at = parameters_.data() + field.offset.value;
    if (field.kind == FieldKind::param) {
      params_.push_back({field.index, static_cast<uint32_t>(field.offset.value),
                         static_cast<uint32_t>(field.size.value)});
      continue;
    }
    if (field.kind == FieldKind::threadgroup) {
      const Size3& group = launch.threadgroup;
      store(at, std::array{group.x, group.y, group.z});
      continue;
    }
    const size_t place = bindings_[field.index].argument;
    for (uint32_t i = 0; i < field.count; ++i) {
      if (field.kind == FieldKind::shape) {
        store(at + size_t{4} * i, static_cast<int32_t>(arrays[place]->shape[i]));
      } else {
        store(at + size_t{8} * i, checked.all()[place].strides[i]);
      }
    }
  }
}

template <typename Recorder>
void PreparedLaunch::record_on(Recorder& recorder, const Kernel& kernel,
                               const Launch& launch) const {
  const Arrays arrays = arrays_of(launch);
  check_memory_of(kernel, launch, arrays, arguments_);
  if (parts_.empty()) return;
  boost::container::small_vector<hal::Binding, 8> bindings(bindings_.size(),
                                                           boost::container::default_init);
  for (size_t i = 0; i < bindings.size(); ++i) {
    const Binding& b = bindings_[i];
    bindings[i] = {arrays[b.argument]->memory, arguments_[b.argument].range, b.access, /*slot=*/-1};
  }
  boost::container::small_vector<std::byte, 256> parameters(parameters_.size(),
                                                            boost::container::default_init);
  std::memcpy(parameters.data(), parameters_.data(), parameters_.size());
  for (const ParamBytes& param : params_) {
    std::memcpy(parameters.data() + param.offset, &launch.params[param.param].value.bits,
                param.size);
  }
  const std::string_view label =
      launch.label.empty() ? std::string_view(kernel.name()) : launch.label;
  const auto dispatch_all = [&](auto& to) {
    for (const DispatchPart& part : parts_) {
      if (variant_->interface.has_launch_block) store(parameters.data(), part.block);
      to.dispatch(variant_->pipeline, {bindings.data(), bindings.size()},
                  std::span<const std::byte>(parameters.data(), parameters.size()), part.groups,
                  label);
      if (parts_.size() == 1) return;
      // The next part leaves what this one wrote as it is.
      for (hal::Binding& b : bindings) {
        if (b.access == hal::Access::write) b.access = hal::Access::read_write;
      }
    }
  };
  if constexpr (std::is_same_v<Recorder, runtime::Stream>) {
    if (parts_.size() > 1) {  // all of them or none
      runtime::Transaction transaction = recorder.begin();
      dispatch_all(transaction);
      transaction.commit();
      return;
    }
  }
  dispatch_all(recorder);
}

void PreparedLaunch::record(runtime::Stream& stream, const Kernel& kernel,
                            const Launch& launch) const {
  record_on(stream, kernel, launch);
}

void PreparedLaunch::record(runtime::Transaction& transaction, const Kernel& kernel,
                            const Launch& launch) const {
  record_on(transaction, kernel, launch);
}

}  // namespace holdfast::kernel
