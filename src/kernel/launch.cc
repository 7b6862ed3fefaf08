#include "holdfast/kernel/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <cstring>
#include <type_traits>

#include "holdfast/base/env.h"
#include "holdfast/base/log.h"
#include "holdfast/base/shown.h"
#include "holdfast/base/sync/process.h"
#include "holdfast/kernel/cache/variant_cache.h"
#include "holdfast/kernel/native.h"
#include "holdfast/kernel/refusals.h"
#include "holdfast/kernel/targets/target.h"

namespace holdfast::kernel {
namespace {

using ParameterBytes = boost::container::small_vector<std::byte, 512>;

uint32_t rank_for_code(const Kernel& kernel, ArgumentGroup group, size_t index, size_t rank) {
  if (kernel.uses_rank(group, index)) return static_cast<uint32_t>(rank);
  return group == ArgumentGroup::input && rank == 0 ? 0 : 1;
}

// Of a group that is not too large.
uint64_t threads_of(const Size3& group) { return uint64_t{group.x} * group.y * group.z; }

// One argument of a launch, checked.
struct Bound {
  const ArrayRef* array = nullptr;
  std::string_view name;
  bool written = false;
  bool dense = true;  // its elements are all of the range
  ByteRange range{};
  std::array<int64_t, kMaxRank> strides;  // as many as the shape has
};

void check_counts(const Kernel& kernel, const Launch& launch) {
  const Definition& d = kernel.definition();
  check_count(kernel, launch.label, "input", d.inputs, launch.inputs.size());
  check_count(kernel, launch.label, "output", d.outputs, launch.outputs.size());
  check_count(kernel, launch.label, "in_place argument", d.in_place, launch.in_place.size());
}

class CheckedLaunch {
 public:
  CheckedLaunch(const Kernel& kernel, const Launch& launch, const hal::DeviceInfo& device)
      : kernel_(kernel), launch_(launch) {
    const Definition& d = kernel.definition();
    check_counts(kernel, launch);
    check_threadgroup(kernel, launch.label, launch.threadgroup, device);
    add(launch.inputs, d.inputs, false);
    add(launch.in_place, d.in_place, true);
    add(launch.outputs, d.outputs, true);
    check_apart();
  }

  const Bound& bound(const BindingUse& use) const {
    size_t index = use.index;
    if (use.group != ArgumentGroup::input) index += launch_.inputs.size();
    if (use.group == ArgumentGroup::output) index += launch_.in_place.size();
    return bounds_[index];
  }

 private:
  void add(std::span<const ArrayRef> arrays, std::span<const std::string> names, bool written) {
    for (size_t i = 0; i < arrays.size(); ++i) add(arrays[i], names[i], written);
  }

  void add(const ArrayRef& array, std::string_view name, bool written) {
    Bound& bound = bounds_.emplace_back();
    bound.array = &array;
    bound.name = name;
    bound.written = written;
    if (array.memory == nullptr)
      refuse(kernel_, launch_.label, fmt::format("{} has no memory", shown(name)));
    if (array.shape.size() > kMaxRank) {
      refuse(kernel_, launch_.label,
             fmt::format("{} has {} dimensions, and {} are the most", shown(name),
                         array.shape.size(), kMaxRank));
    }
    if (!array.strides.empty() && array.strides.size() != array.shape.size()) {
      refuse(kernel_, launch_.label,
             fmt::format("{} has {} dimensions and {} strides", shown(name), array.shape.size(),
                         array.strides.size()));
    }
    const uint64_t element = size_of(array.dtype).value;
    if (array.offset.value % element != 0) {
      refuse(kernel_, launch_.label,
             fmt::format("{} begins at byte {}, which is no multiple of its element's {}",
                         shown(name), array.offset.value, element));
    }
    bound.range = {array.offset, {elements(array, name, bound) * element}};
    if (!bound.range.fits_in(array.memory->size())) {
      refuse(kernel_, launch_.label,
             fmt::format("{} needs {} from byte {} on, and {} has {}", shown(name),
                         to_string(bound.range.length), array.offset.value,
                         array.memory->describe(), to_string(array.memory->size())));
    }
  }

  // From the first element to the last one that is reached.
  uint64_t elements(const ArrayRef& array, std::string_view name, Bound& bound) const {
    uint64_t contiguous = 1;
    uint64_t last = 0;
    bool empty = false;
    bool overflow = false;
    for (size_t i = array.shape.size(); i-- > 0;) {
      const int64_t length = array.shape[i];
      if (length < 0 || length > INT32_MAX) {
        refuse(kernel_, launch_.label,
               fmt::format("dimension {} of {} has a length of {}", i, shown(name), length));
      }
      const int64_t stride =
          array.strides.empty() ? static_cast<int64_t>(contiguous) : array.strides[i];
      if (stride < 0) {
        refuse(kernel_, launch_.label,
               fmt::format("dimension {} of {} has a stride of {}; give the kernel a copy without "
                           "negative strides",
                           i, shown(name), stride));
      }
      bound.strides[i] = stride;
      empty = empty || length == 0;
      uint64_t reach = 0;
      overflow |= __builtin_mul_overflow(static_cast<uint64_t>(std::max<int64_t>(length, 1) - 1),
                                         static_cast<uint64_t>(stride), &reach);
      overflow |= __builtin_add_overflow(last, reach, &last);
      overflow |= __builtin_mul_overflow(contiguous, static_cast<uint64_t>(length), &contiguous);
    }
    if (empty) return 0;
    if (overflow || last > (uint64_t{1} << 59)) {
      refuse(kernel_, launch_.label,
             fmt::format("{} reaches further than any memory", shown(name)));
    }
    bound.dense = contiguous >= last + 1;
    return last + 1;
  }

  void check_apart() const {
    for (const Bound& a : bounds_) {
      if (!a.written) continue;
      for (const Bound& b : bounds_) {
        if (&a == &b || a.array->memory != b.array->memory || !a.range.overlaps(b.range)) continue;
        refuse(kernel_, launch_.label,
               fmt::format("{}, which it writes, shares bytes of {} with {}; give such memory "
                           "once, as an in_place argument",
                           shown(a.name), a.array->memory->describe(), shown(b.name)));
      }
    }
  }

  const Kernel& kernel_;
  const Launch& launch_;
  boost::container::small_vector<Bound, 8> bounds_;
};

template <typename T>
void store(ParameterBytes& bytes, Bytes offset, const T& value) {
  std::memcpy(bytes.data() + offset.value, &value, sizeof(value));
}

void fill_fields(ParameterBytes& bytes, const Interface& interface,
                 std::span<const Bound* const> bounds, const Launch& launch) {
  for (const ParameterField& field : interface.fields) {
    if (field.kind == FieldKind::param) {
      const uint64_t bits = launch.params[field.index].value.bits;
      std::memcpy(bytes.data() + field.offset.value, &bits, field.size.value);
      continue;
    }
    if (field.kind == FieldKind::threadgroup) {
      const Size3& group = launch.threadgroup;
      store(bytes, field.offset, std::array{group.x, group.y, group.z});
      continue;
    }
    const Bound& bound = *bounds[field.index];
    for (uint32_t i = 0; i < field.count; ++i) {
      if (field.kind == FieldKind::shape) {
        store(bytes, field.offset + Bytes{4} * i, static_cast<int32_t>(bound.array->shape[i]));
      } else {
        store(bytes, field.offset + Bytes{8} * i, bound.strides[i]);
      }
    }
  }
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

// A launch, whoever records it.
template <typename Recorder>
void record(Recorder& recorder, const Target& target, const Kernel& kernel, const Launch& launch,
            const CheckedLaunch& checked, const Variant& variant) {
  check_group(kernel, launch, variant);
  const Interface& interface = variant.interface;
  boost::container::small_vector<const Bound*, 8> bounds;
  boost::container::small_vector<hal::Binding, 8> bindings;
  for (const BindingUse& use : interface.bindings) {
    const Bound& bound = checked.bound(use);
    bounds.push_back(&bound);
    // An output with gaps leaves what lies in them as it was: it must be good before.
    const bool keeps_some =
        use.access == hal::Access::write && (!bound.dense || launch.keeps_outputs);
    const hal::Access access = keeps_some ? hal::Access::read_write : use.access;
    bindings.push_back({bound.array->memory, bound.range, access, /*slot=*/-1});
  }
  if (launch.grid.empty()) return;

  ParameterBytes parameters(interface.parameter_bytes.value, boost::container::default_init);
  std::memset(parameters.data(), 0, parameters.size());
  fill_fields(parameters, interface, {bounds.data(), bounds.size()}, launch);
  const auto dispatch = [&](auto& to, const hal::Groups& groups) {
    to.dispatch(variant.pipeline, {bindings.data(), bindings.size()},
                std::span<const std::byte>(parameters.data(), parameters.size()), groups,
                launch.label.empty() ? std::string_view(kernel.name()) : launch.label);
  };
  DispatchParts parts;
  const LaunchShape shape{launch.grid, launch.threadgroup, launch.work_per_thread};
  if (const Failure refused = target.cut(interface, shape, parts)) {
    refuse(kernel, launch.label, refused.message());
  }
  const auto dispatch_all = [&](auto& to) {
    for (const DispatchPart& part : parts) {
      if (interface.has_launch_block) store(parameters, {}, part.block);
      dispatch(to, part.groups);
      // The next part leaves what this one wrote as it is.
      for (hal::Binding& b : bindings) {
        if (b.access == hal::Access::write) b.access = hal::Access::read_write;
      }
    }
  };
  if constexpr (std::is_same_v<Recorder, runtime::Stream>) {
    if (parts.size() > 1) {  // all of them or none
      runtime::Transaction transaction = recorder.begin();
      dispatch_all(transaction);
      transaction.commit();
      return;
    }
  }
  dispatch_all(recorder);
}

SignatureKey key_of(const Kernel& kernel, const Launch& launch) {
  SignatureKey key;
  key.add_counts(launch.inputs.size(), launch.outputs.size(), launch.in_place.size(),
                 launch.constants.size(), launch.params.size());
  const auto add = [&](ArgumentGroup group, std::span<const ArrayRef> arrays) {
    for (size_t i = 0; i < arrays.size(); ++i) {
      key.add(arrays[i].dtype, rank_for_code(kernel, group, i, arrays[i].shape.size()));
    }
  };
  add(ArgumentGroup::input, launch.inputs);
  add(ArgumentGroup::output, launch.outputs);
  add(ArgumentGroup::in_place, launch.in_place);
  for (const Constant& constant : launch.constants) key.add(constant.name, constant.value);
  for (const Param& param : launch.params) key.add(param.name, param.value.dtype);
  return key;
}

CallSignature signature_of(const Launch& launch) {
  CallSignature signature;
  const auto add = [](std::vector<ArgumentType>& types, std::span<const ArrayRef> arrays) {
    for (const ArrayRef& array : arrays) {
      types.push_back({array.dtype, static_cast<uint32_t>(array.shape.size())});
    }
  };
  add(signature.inputs, launch.inputs);
  add(signature.outputs, launch.outputs);
  add(signature.in_place, launch.in_place);
  signature.constants.assign(launch.constants.begin(), launch.constants.end());
  for (const Param& param : launch.params) {
    signature.params.push_back({param.name, param.value.dtype});
  }
  return signature;
}

// Signatures that give the same code are the same. One of other counts than the kernel's stays as
// it is, to be refused.
CallSignature normal(const Kernel& kernel, CallSignature signature) {
  const Definition& d = kernel.definition();
  if (signature.inputs.size() != d.inputs.size() || signature.outputs.size() != d.outputs.size() ||
      signature.in_place.size() != d.in_place.size()) {
    return signature;
  }
  const auto reduce = [&](ArgumentGroup group, std::vector<ArgumentType>& types) {
    for (size_t i = 0; i < types.size(); ++i) {
      types[i].rank = rank_for_code(kernel, group, i, types[i].rank);
    }
  };
  reduce(ArgumentGroup::input, signature.inputs);
  reduce(ArgumentGroup::output, signature.outputs);
  reduce(ArgumentGroup::in_place, signature.in_place);
  return signature;
}

const Native* find_native(const Definition& definition, std::span<const NativeKind> kinds) {
  for (const NativeKind kind : kinds) {
    for (const Native& native : definition.natives) {
      if (native.kind == kind) return &native;
    }
  }
  return nullptr;
}

}  // namespace

void check_threadgroup(const Kernel& kernel, std::string_view label, const Size3& threadgroup,
                       const hal::DeviceInfo& device) {
  const Size3& g = threadgroup;
  if (g.empty()) {
    refuse(kernel, label,
           fmt::format("a threadgroup of {} x {} x {} has no thread", g.x, g.y, g.z));
  }
  // Each by itself first: the product may not fit.
  const uint32_t limit = device.max_group_threads;
  if (g.x > limit || g.y > limit || g.z > limit || threads_of(g) > limit) {
    refuse(kernel, label,
           fmt::format("a threadgroup of {} x {} x {} threads is too large: device '{}' allows "
                       "{} in all",
                       g.x, g.y, g.z, device.name, limit));
  }
}

KernelRuntime::KernelRuntime(const Ref<runtime::Context>& context)
    : KernelRuntime(context, Options{}) {}

KernelRuntime::KernelRuntime(const Ref<runtime::Context>& context, Options options)
    : device_(context->device()),
      fork_generation_(sync::fork_generation()),
      bounds_(options.bounds || env::flag("HOLDFAST_BOUNDS").value_or(false)) {
  target_ = options.target ? std::move(options.target) : make_target(device_->info());
  cache_ =
      std::make_unique<VariantCache>(device_, target_, std::move(options.disk), options.limits);
}

KernelRuntime::~KernelRuntime() = default;

std::shared_ptr<DiskCache> usual_disk_cache() { return DiskCache::from_environment(); }

CacheStats KernelRuntime::stats() const { return cache_->stats(); }
void KernelRuntime::clear() { cache_->clear(); }
void KernelRuntime::set_limits(CacheLimits limits) { cache_->set_limits(limits); }

Result<CompileJob> KernelRuntime::make_job(const Kernel& kernel,
                                           const CallSignature& signature) const {
  const Definition& definition = kernel.definition();
  if (Failure refused = check(definition, signature)) return refused;
  const auto checked = [&](CompileJob&& job) -> Result<CompileJob> {
    const Bytes bytes = job.code.interface.parameter_bytes;
    if (bytes <= hal::kMaxParameterBytes) return std::move(job);
    const auto [taken, most] = told_apart(bytes, hal::kMaxParameterBytes);
    return Failure(ErrorCode::usage,
                   fmt::format("kernel '{}': its params and shapes take {}, and {} is the most; "
                               "give some of them as an input",
                               definition.name, taken, most));
  };
  // They make no variants.
  CallSignature used = signature;
  for (const Constant* unused : unused_constants(definition, signature)) {
    note_unused(kernel, unused->name);
    std::erase(used.constants, *unused);
  }
  CompileJob job;
  job.kernel = definition.name;
  job.variant = describe(definition, used);
  job.verbose = definition.verbose;
  if (const Native* native = find_native(definition, target_->natives())) {
    job.native = std::make_shared<Native>(*native);
    job.constants = used.constants;
    job.code = native_interface(definition, used, *native);
    return checked(std::move(job));
  }
  const auto cannot_run = [&](std::string_view why) {
    return Failure(ErrorCode::unsupported, fmt::format("kernel '{}' cannot run on device '{}': {}",
                                                       definition.name, device_->info().name, why));
  };
  if (definition.source.empty()) {
    return cannot_run("it has no body, and none of its natives is for this device");
  }
  Result<GeneratedKernel> code =
      target_->generate(definition, normal(kernel, std::move(used)), {bounds_});
  if (!code) return cannot_run(code.failure().message());
  job.code = std::move(code).value();
  return checked(std::move(job));
}

void KernelRuntime::note_unused(const Kernel& kernel, const std::string& constant) const {
  if (!logging::enabled(logging::Topic::kernels)) return;
  // Enough for every kernel of a program; one that makes up names is told no more.
  constexpr size_t kMostNotes = 1000;
  {
    auto noted = noted_.lock();
    if (noted->size() >= kMostNotes || !noted->insert(kernel.name() + " " + constant).second)
      return;
  }
  logging::note(logging::Topic::kernels,
                "kernel '{}': the constant {} is given, and neither body nor header uses it",
                kernel.name(), shown(constant));
}

void KernelRuntime::check_usable() const {
  if (fork_generation_ == sync::fork_generation()) return;
  // A compile that was under way in the parent never ends here.
  throw UsageError(
      "kernels cannot be launched or compiled in a forked process; open a device and "
      "make a KernelRuntime after the fork");
}

Ref<const Variant> KernelRuntime::variant_for(const Kernel& kernel, const Launch& launch) {
  const SignatureKey key = key_of(kernel, launch);
  if (Ref<const Variant> found = cache_->find(kernel.id(), key)) return found;
  return cache_->get(kernel.id(), key, [&] { return make_job(kernel, signature_of(launch)); })
      .or_raise();
}

Ref<const Variant> KernelRuntime::prepare(const Kernel& kernel, const Launch& launch) {
  check_usable();
  const CheckedLaunch checked(kernel, launch, device_->info());
  Ref<const Variant> variant = variant_for(kernel, launch);
  check_group(kernel, launch, *variant);
  return variant;
}

SignatureKey KernelRuntime::key(const Kernel& kernel, const Launch& launch) const {
  check_usable();
  check_counts(kernel, launch);
  return key_of(kernel, launch);
}

std::function<Result<CompileJob>()> KernelRuntime::job_maker(const Kernel& kernel,
                                                             const Launch& launch) {
  return [this, kernel, signature = signature_of(launch)] { return make_job(kernel, signature); };
}

void KernelRuntime::launch(runtime::Transaction& transaction, const Kernel& kernel,
                           const Launch& launch, const Variant& variant) {
  check_usable();
  const CheckedLaunch checked(kernel, launch, device_->info());
  record(transaction, *target_, kernel, launch, checked, variant);
}

void KernelRuntime::launch(runtime::Stream& stream, const Kernel& kernel, const Launch& launch) {
  check_usable();
  const CheckedLaunch checked(kernel, launch, device_->info());
  record(stream, *target_, kernel, launch, checked, *variant_for(kernel, launch));
}

void KernelRuntime::launch(runtime::Transaction& transaction, const Kernel& kernel,
                           const Launch& launch) {
  check_usable();
  const CheckedLaunch checked(kernel, launch, device_->info());
  record(transaction, *target_, kernel, launch, checked, *variant_for(kernel, launch));
}

std::vector<Failure> KernelRuntime::warm_up(const Kernel& kernel,
                                            std::span<const CallSignature> signatures) {
  check_usable();
  std::vector<VariantCache::Wanted> wanted;
  wanted.reserve(signatures.size());
  for (const CallSignature& signature : signatures) {
    wanted.push_back({kernel.id(), SignatureKey(normal(kernel, signature)),
                      [&] { return make_job(kernel, signature); }});
  }
  return cache_->warm_up(wanted);
}

std::string KernelRuntime::generated_text(const Kernel& kernel,
                                          const CallSignature& signature) const {
  const CompileJob job = make_job(kernel, signature).or_raise();
  return job.native ? job.native->text : job.code.preamble + job.code.text;
}

}  // namespace holdfast::kernel
