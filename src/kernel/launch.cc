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
#include "holdfast/kernel/prepared_launch.h"
#include "holdfast/kernel/refusals.h"
#include "holdfast/kernel/targets/target.h"

namespace holdfast::kernel {
namespace {

uint32_t rank_for_code(const Kernel& kernel, ArgumentGroup group, size_t index, size_t rank) {
  if (kernel.uses_rank(group, index)) return static_cast<uint32_t>(rank);
  return group == ArgumentGroup::input && rank == 0 ? 0 : 1;
}

// Of a group that is not too large.
uint64_t threads_of(const Size3& group) { return uint64_t{group.x} * group.y * group.z; }

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
void KernelRuntime::clear() {
  forget_known();
  cache_->clear();
}
void KernelRuntime::set_limits(CacheLimits limits) {
  forget_known();
  cache_->set_limits(limits);
}

void KernelRuntime::forget_known() {
  std::vector<std::shared_ptr<const Known>> dropped;
  known_.lock()->swap(dropped);
}

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

struct KernelRuntime::Known {
  KernelId kernel;
  LaunchForm form;
  SignatureKey signature;
  uint64_t hash;
  PreparedLaunch launch;
};

std::shared_ptr<const KernelRuntime::Known> KernelRuntime::find_known(const Kernel& kernel,
                                                                      const Launch& launch) {
  std::shared_ptr<const Known> found;
  {
    auto known = known_.lock();
    for (size_t i = 0; i < known->size(); ++i) {
      if (!(*known)[i]->form.is_of(kernel, launch)) continue;
      const auto first = known->begin();
      if (i != 0)
        std::rotate(first, first + static_cast<std::ptrdiff_t>(i),
                    first + static_cast<std::ptrdiff_t>(i) + 1);
      found = known->front();
      break;
    }
  }
  if (!found) return found;
  const bool in_use =
      cache_->use(found->kernel, found->signature, found->hash, *found->launch.variant());
  if (in_use) return found;
  forget_known();  // so that nothing that was evicted is kept for long
  return nullptr;
}

void KernelRuntime::remember(const std::shared_ptr<const Known>& known) {
  // As many forms as a loop of a program may well have. Chosen, not measured.
  constexpr size_t kMost = 8;
  std::shared_ptr<const Known> dropped;
  auto all = known_.lock();
  if (all->size() == kMost) {
    dropped = std::move(all->back());
    all->pop_back();
  }
  all->insert(all->begin(), known);
}

std::shared_ptr<const KernelRuntime::Known> KernelRuntime::prepared(const Kernel& kernel,
                                                                    const Launch& launch,
                                                                    bool has_memory) {
  check_usable();
  if (auto known = find_known(kernel, launch)) return known;
  const CheckedArguments checked(kernel, launch, device_->info());
  SignatureKey signature = key_of(kernel, launch);
  const uint64_t hash = cache_->hash_of(kernel.id(), signature);
  Ref<const Variant> variant = cache_->find(kernel.id(), signature);
  if (!variant) {
    // Nothing is compiled for a launch that will be refused.
    if (has_memory) checked.check_memory(kernel, launch);
    forget_known();  // what goes to make room is kept by nobody
    variant =
        cache_->get(kernel.id(), signature, [&] { return make_job(kernel, signature_of(launch)); })
            .or_raise();
  }
  auto known = std::make_shared<const Known>(
      Known{kernel.id(), LaunchForm(kernel, launch), std::move(signature), hash,
            PreparedLaunch(kernel, launch, checked, std::move(variant), *target_)});
  remember(known);
  return known;
}

Ref<const Variant> KernelRuntime::prepare(const Kernel& kernel, const Launch& launch) {
  return prepared(kernel, launch, false)->launch.variant();
}

SignatureKey KernelRuntime::key(const Kernel& kernel, const Launch& launch) const {
  return key_of(kernel, launch);
}

std::function<Result<CompileJob>()> KernelRuntime::job_maker(const Kernel& kernel,
                                                             const Launch& launch) {
  return [this, kernel, signature = signature_of(launch)] { return make_job(kernel, signature); };
}

void KernelRuntime::launch(runtime::Stream& stream, const Kernel& kernel, const Launch& launch) {
  prepared(kernel, launch, true)->launch.record(stream, kernel, launch);
}

void KernelRuntime::launch(runtime::Transaction& transaction, const Kernel& kernel,
                           const Launch& launch) {
  prepared(kernel, launch, true)->launch.record(transaction, kernel, launch);
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
