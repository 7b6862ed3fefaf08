#include "holdfast/kernel/resolve.h"

#include <algorithm>
#include <utility>

namespace holdfast::kernel {
namespace {

constexpr size_t kRemembered = 8;

}  // namespace

const PreparedLaunch* Resolver::find(KernelRuntime& kernels, const Kernel& kernel,
                                     const Launch& launch) {
  kernels.check_usable();
  for (size_t i = 0; i < found_.size(); ++i) {
    if (found_[i]->kernels != &kernels || !found_[i]->form.is_of(kernel, launch)) continue;
    if (i != 0) std::rotate(found_.begin(), found_.begin() + i, found_.begin() + i + 1);
    return &found_[0]->launch;
  }
  const CheckedArguments checked(kernel, launch, kernels.device_->info());
  Entry entry{&kernels, kernel.id(), kernels.key(kernel, launch)};
  const auto held = std::ranges::find(held_, entry, &Held::entry);
  Ref<const Variant> variant =
      held != held_.end() ? held->variant : kernels.cache().find(entry.kernel, entry.signature);
  if (!variant) {
    if (std::ranges::find(noted_, entry, &Noted::entry) == noted_.end()) {
      // More than a cache keeps would be evicted before their turn.
      most_ = std::min(most_, kernels.cache().limits().variants);
      if (!known_failure(entry)) ++promising_;
      noted_.push_back({std::move(entry), kernels.job_maker(kernel, launch)});
    }
    return nullptr;
  }
  auto found = std::make_unique<Found>(
      Found{&kernels, LaunchForm(kernel, launch),
            PreparedLaunch(kernel, launch, checked, std::move(variant), *kernels.target_)});
  if (found_.size() == kRemembered) found_.pop_back();
  return &(*found_.insert(found_.begin(), std::move(found)))->launch;
}

void Resolver::forget() noexcept {
  noted_.clear();
  promising_ = 0;
  most_ = kMostAhead;
}

Failure Resolver::known_failure(const Entry& entry) const {
  const auto found = std::ranges::find(failed_, entry, &Failed::entry);
  return found != failed_.end() ? found->failure : Failure();
}

void Resolver::compile_ahead() {
  std::vector<KernelRuntime*> all;
  for (const Noted& noted : noted_) {
    if (std::ranges::find(all, noted.entry.kernels) == all.end()) {
      all.push_back(noted.entry.kernels);
    }
  }
  for (KernelRuntime* const kernels : all) {
    std::vector<VariantCache::Wanted> wanted;
    for (const Noted& noted : noted_) {
      if (noted.entry.kernels != kernels || known_failure(noted.entry)) continue;
      wanted.push_back({noted.entry.kernel, noted.entry.signature, noted.make_job});
    }
    if (wanted.size() < 2) continue;
    std::vector<Failure> failures = kernels->cache().warm_up(wanted);
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!failures[i]) continue;
      failed_.push_back(
          {{kernels, wanted[i].kernel, std::move(wanted[i].signature)}, std::move(failures[i])});
    }
  }
}

Failure Resolver::resolve(size_t needed) {
  compile_ahead();
  const std::vector<Noted> noted = std::exchange(noted_, {});
  forget();
  for (size_t i = 0; i < needed; ++i) {
    const Entry& entry = noted[i].entry;
    if (Failure failure = known_failure(entry)) return failure;
    Result<Ref<const Variant>> made =
        entry.kernels->cache().get(entry.kernel, entry.signature, noted[i].make_job);
    if (!made) {
      failed_.push_back({entry, made.failure()});
      return made.failure();
    }
    held_.push_back({entry, std::move(made).value()});
  }
  return {};
}

}  // namespace holdfast::kernel
