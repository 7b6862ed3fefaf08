#include "holdfast/kernel/cache/variant_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "holdfast/base/ablation.h"
#include "holdfast/base/log.h"
#include "holdfast/base/rounding.h"
#include "holdfast/base/sync/clock.h"
#include "holdfast/base/sync/condition.h"
#include "holdfast/base/sync/pool.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/kernel/cache/variant_table.h"

namespace holdfast::kernel {
namespace {

// What a target gets at once in warm_up: it may share a run of its compiler among them, and the
// first are there while others are still made.
constexpr size_t kMostInBatch = 8;

// A promise of the target's that was broken, as a value: those who wait must hear of it.
Failure failure_of(const std::exception& error, const std::string& kernel) {
  const bool memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  return {memory ? ErrorCode::out_of_memory : ErrorCode::environment,
          fmt::format("compiling kernel '{}' raised: {}", kernel, error.what())};
}

// The same for what is no std::exception.
Failure failure_of_unknown(const std::string& kernel) {
  return {ErrorCode::environment,
          fmt::format("compiling kernel '{}' raised something that is no std::exception", kernel)};
}

Failure given_up(const CompileJob& job) {
  return {ErrorCode::environment,
          fmt::format("compiling kernel '{}' was given up; memory may have run out", job.kernel)};
}

// A simulation is the same on every machine.
unsigned parallel_compiles() {
  return sync::Scheduler::current() != nullptr ? 2 : std::max(1U, sync::hardware_threads());
}

std::unique_ptr<sync::WorkerPool> make_helpers(size_t count) {
  try {
    return std::make_unique<sync::WorkerPool>("hf-warm-up", static_cast<unsigned>(count));
  } catch (const EnvironmentError&) {
    // No more threads: the caller's own is enough.
    return std::make_unique<sync::WorkerPool>("hf-warm-up", 0);
  }
}

// What is not made then is given up by its Departure.
template <typename Action>
void unless_out_of_memory(const Action& action) noexcept {
  try {
    action();
  } catch (const std::bad_alloc&) {
    return;
  }
}

void log_text(const CompileJob& job) {
  if (!job.verbose && !logging::enabled(logging::Topic::kernels)) return;
  logging::tell_text(logging::Topic::kernels,
                     fmt::format("compiling kernel '{}' ({}):\n{}", job.kernel, job.variant,
                                 job.native ? job.native->text : job.code.text));
}

}  // namespace

struct VariantCache::State {
  // One content that is being made by somebody.
  struct Flight {
    explicit Flight(ContentKey of) : content(std::move(of)) {}
    const ContentKey content;
    // Guarded by the mutex until it is done; nobody writes to them after that.
    sync::Condition over;
    bool done = false;
    Failure failure;
    Ref<const Variant> variant;
  };
  // A call that the table does not know.
  struct Call {
    KernelId kernel;
    const SignatureKey* signature = nullptr;
    uint64_t hash = 0;
    CompileJob job{};
  };
  enum class Source { disk, compiler };
  // A flight of one's own. It lands in any case: others wait for it.
  class Departure {
   public:
    Departure(State& state, const Call& call, std::shared_ptr<Flight> flight)
        : state_(&state), call_(&call), flight_(std::move(flight)) {}
    Departure(Departure&&) noexcept = default;
    Departure& operator=(Departure&&) = delete;
    ~Departure() {
      if (flight_ && !flight_->done) land(given_up(call_->job), Source::compiler);
    }

    const CompileJob& job() const { return call_->job; }
    const Call& call() const { return *call_; }
    const Flight& flight() const { return *flight_; }
    bool landed() const { return flight_->done; }
    void land(const Result<Ref<const Variant>>& made, Source source) {
      state_->land(*call_, *flight_, made, source);
    }

   private:
    State* state_;
    const Call* call_;
    std::shared_ptr<Flight> flight_;
  };
  // How a call gets its variant: it is there, or is being made by this call or by another.
  struct Claim {
    Ref<const Variant> variant{};
    std::shared_ptr<Flight> flight{};
    bool own = false;
  };

  State(Ref<hal::Device> on, std::shared_ptr<Target> with, std::shared_ptr<DiskCache> at,
        CacheLimits most)
      : device(std::move(on)), target(std::move(with)), disk(std::move(at)), limits(most) {}

  const Ref<hal::Device> device;
  const std::shared_ptr<Target> target;
  const std::shared_ptr<DiskCache> disk;

  mutable sync::Mutex mutex;  // guards all below
  CacheLimits limits HOLDFAST_GUARDED_BY(mutex);
  CacheStats stats HOLDFAST_GUARDED_BY(mutex);
  VariantTable table HOLDFAST_GUARDED_BY(mutex);
  VariantTable::ByContent<std::shared_ptr<Flight>> flights HOLDFAST_GUARDED_BY(mutex);

  Ref<const Variant> find(KernelId kernel, const SignatureKey& signature, uint64_t hash);
  Claim claim(const Call& call, const ContentKey& content);
  Result<Ref<const Variant>> outcome(const Call& call, Flight& flight);
  void land(const Call& call, Flight& flight, const Result<Ref<const Variant>>& made,
            Source source);
  Failure count_failure(Failure failure);

  Result<ContentKey> key_of(const CompileJob& job) const;
  // Whether it was there, and so has landed.
  bool make_from_disk(Departure& departure);
  // With one run of the compiler; all of them have landed then.
  void make(std::span<Departure* const> batch);
  Result<Ref<const Variant>> load(const CompileJob& job, const ContentKey& content,
                                  std::span<const std::byte> code);
  Failure before_compile(const CompileJob& job) const;
  // Calls the compiler and adds up its time.
  std::vector<Result<Code>> compile(std::span<const CompileJob* const> jobs);
};

// The table

Ref<const Variant> VariantCache::State::find(KernelId kernel, const SignatureKey& signature,
                                             uint64_t hash) {
  const sync::Lock lock(mutex);
  const Variant* const found = table.find(kernel, signature, hash);
  if (found == nullptr) return nullptr;
  ++stats.hits;
  return Ref<const Variant>(found);
}

VariantCache::State::Claim VariantCache::State::claim(const Call& call, const ContentKey& content) {
  VariantTable::Dropped dropped;
  const sync::Lock lock(mutex);
  ++stats.misses;
#ifdef HOLDFAST_ABLATIONS
  if (ablated(Ablation::kernel_key_clear_on_mismatch)) {
    table.drop_others_of(call.job.kernel, content, dropped);
  }
#endif
  Claim claim;
  claim.variant = Ref<const Variant>(table.find(content, call.kernel, *call.signature, call.hash));
  if (claim.variant) {
    ++stats.shared;
    stats.evictions += table.trim(limits, dropped);
    return claim;
  }
  if (const auto found = flights.find(&content); found != flights.end()) {
    ++stats.waits;
    claim.flight = found->second;
    return claim;
  }
  claim.own = true;
  claim.flight = std::make_shared<Flight>(content);
  flights.emplace(&claim.flight->content, claim.flight);
  if (ablated(Ablation::cached_before_compiled)) {
    table.insert(content, call.job.kernel,
                 make_ref<const Variant>(nullptr, call.job.code.interface, Bytes{}), call.kernel,
                 *call.signature, call.hash, dropped);
  }
  return claim;
}

Result<Ref<const Variant>> VariantCache::State::outcome(const Call& call, Flight& flight) {
  VariantTable::Dropped dropped;
  sync::Lock lock(mutex);
  flight.over.wait(lock, [&] { return flight.done; });
  if (flight.failure) {
    ++stats.failures;
    return flight.failure;
  }
  ++stats.shared;
  // Unless it has gone again already.
  table.find(flight.content, call.kernel, *call.signature, call.hash);
  stats.evictions += table.trim(limits, dropped);
  const Ref<const Variant> variant = flight.variant;
  lock.unlock();
  return variant;
}

void VariantCache::State::land(const Call& call, Flight& flight,
                               const Result<Ref<const Variant>>& made, Source source) {
  VariantTable::Dropped dropped;
  const sync::Lock lock(mutex);
  if (made) {
    flight.variant = made.value();
    try {
      table.insert(flight.content, call.job.kernel, flight.variant, call.kernel, *call.signature,
                   call.hash, dropped);
      stats.evictions += table.trim(limits, dropped);
    } catch (const std::bad_alloc&) {
      // It is used, though not kept.
    }
    ++(source == Source::disk ? stats.disk_hits : stats.compiles);
  } else {
    flight.failure = made.failure();
    ++stats.failures;
  }
  flight.done = true;
  flights.erase(flights.find(&flight.content));
  flight.over.notify_all();
}

Failure VariantCache::State::count_failure(Failure failure) {
  const sync::Lock lock(mutex);
  ++stats.misses;
  ++stats.failures;
  return failure;
}

// Making: no lock is held

Result<ContentKey> VariantCache::State::key_of(const CompileJob& job) const {
  Result<std::string> version = target->version();
  if (!version) {
    return Failure(version.failure().code(),
                   fmt::format("kernel '{}': {}", job.kernel, version.failure().message()));
  }
  return ContentKey(job, version.value());
}

Result<Ref<const Variant>> VariantCache::State::load(const CompileJob& job,
                                                     const ContentKey& content,
                                                     std::span<const std::byte> code) {
  try {
    const Result<std::optional<Size3>> group = target->group_size(job, code);
    if (!group) return group.failure();
    Result<Ref<hal::Pipeline>> pipeline = target->load(*device, job, code);
    if (!pipeline) return pipeline.failure();
    return Ref<const Variant>(
        make_ref<const Variant>(std::move(pipeline).value(), job.code.interface,
                                Bytes{code.size() + content.bytes().size()}, group.value()));
  } catch (const std::exception& error) {
    return failure_of(error, job.kernel);
  } catch (...) {
    return failure_of_unknown(job.kernel);
  }
}

bool VariantCache::State::make_from_disk(Departure& departure) {
  if (!disk) return false;
  const ContentKey& content = departure.flight().content;
  const std::optional<Code> code = disk->read(content);
  if (!code) return false;
  const Result<Ref<const Variant>> loaded = load(departure.job(), content, *code);
  if (loaded) {
    departure.land(loaded, Source::disk);
    return true;
  }
  logging::note(logging::Topic::kernels,
                "kernel '{}' is compiled again, since its file '{}' does not load: {}",
                departure.job().kernel, disk->path_of(content).native(),
                loaded.failure().message());
  return false;
}

Failure VariantCache::State::before_compile(const CompileJob& job) const {
  const Ref<hal::Probe> probe = device->probe();
  return probe ? probe->before_compile(job.kernel) : Failure();
}

std::vector<Result<Code>> VariantCache::State::compile(std::span<const CompileJob* const> jobs) {
  for (const CompileJob* job : jobs) log_text(*job);
  const sync::TimePoint start = sync::now();
  std::vector<Result<Code>> codes;
  try {
    if (jobs.size() == 1) {
      codes.push_back(target->compile(*jobs[0]));
    } else if (!jobs.empty()) {
      codes = target->compile_all(jobs);
    }
  } catch (const std::exception& error) {
    codes.assign(jobs.size(), failure_of(error, jobs[0]->kernel));
  } catch (...) {
    codes.assign(jobs.size(), failure_of_unknown(jobs[0]->kernel));
  }
  codes.resize(jobs.size(), Failure(ErrorCode::environment, "the compiler gave no result"));
  const sync::Duration took = sync::now() - start;
  {
    const sync::Lock lock(mutex);
    stats.compile_time += took;
  }
  for (const CompileJob* job : jobs) {
    logging::note(logging::Topic::kernels,
                  "kernel '{}' ({}) was compiled, with {} others, in {:.1f} ms", job->kernel,
                  job->variant, jobs.size() - 1,
                  std::chrono::duration<double, std::milli>(took).count());
  }
  return codes;
}

void VariantCache::State::make(std::span<Departure* const> batch) {
  std::vector<Departure*> going;
  std::vector<const CompileJob*> jobs;
  for (Departure* departure : batch) {
    if (Failure fault = before_compile(departure->job())) {
      departure->land(fault, Source::compiler);
    } else {
      going.push_back(departure);
      jobs.push_back(&departure->job());
    }
  }
  const std::vector<Result<Code>> codes = compile(jobs);
  for (size_t i = 0; i < going.size(); ++i) {
    const ContentKey& content = going[i]->flight().content;
    const Result<Ref<const Variant>> made =
        codes[i] ? load(going[i]->job(), content, codes[i].value()) : codes[i].failure();
    going[i]->land(made, Source::compiler);
    // After that: nobody waits for a disk.
    if (made && disk) disk->write(content, codes[i].value());
  }
}

// The calls

VariantCache::VariantCache(Ref<hal::Device> device, std::shared_ptr<Target> target,
                           std::shared_ptr<DiskCache> disk, CacheLimits limits)
    : state_(
          std::make_unique<State>(std::move(device), std::move(target), std::move(disk), limits)) {}
VariantCache::~VariantCache() = default;

Result<Ref<const Variant>> VariantCache::get(KernelId kernel, const SignatureKey& signature,
                                             const MakeJob& make_job) {
  State& s = *state_;
  const uint64_t hash = VariantTable::hash_of(kernel, signature);
  if (Ref<const Variant> found = s.find(kernel, signature, hash)) return found;
  Result<CompileJob> job = make_job();
  if (!job) return s.count_failure(job.failure());
  const State::Call call{kernel, &signature, hash, std::move(job).value()};
  const Result<ContentKey> content = s.key_of(call.job);
  if (!content) return s.count_failure(content.failure());
  const State::Claim claim = s.claim(call, content.value());
  if (claim.variant) return claim.variant;
  if (!claim.own) return s.outcome(call, *claim.flight);
  {
    State::Departure departure(s, call, claim.flight);
    State::Departure* const alone = &departure;
    if (!s.make_from_disk(departure)) s.make({&alone, 1});
  }
  if (claim.flight->failure) return claim.flight->failure;
  return claim.flight->variant;
}

Ref<const Variant> VariantCache::find(KernelId kernel, const SignatureKey& signature) {
  return state_->find(kernel, signature, VariantTable::hash_of(kernel, signature));
}

uint64_t VariantCache::hash_of(KernelId kernel, const SignatureKey& signature) noexcept {
  return VariantTable::hash_of(kernel, signature);
}

bool VariantCache::use(KernelId kernel, const SignatureKey& signature, uint64_t hash,
                       const Variant& variant) {
  const sync::Lock lock(state_->mutex);
  if (state_->table.find(kernel, signature, hash) != &variant) return false;
  ++state_->stats.hits;
  return true;
}

std::vector<Failure> VariantCache::warm_up(std::span<const Wanted> wanted) {
  State& s = *state_;
  std::vector<Failure> failures(wanted.size());
  if (wanted.empty()) return failures;
  const auto helpers = make_helpers(std::min<size_t>(parallel_compiles(), wanted.size()) - 1);
  sync::WorkerPool& pool = *helpers;
  const size_t threads = pool.helpers() + 1;

  // Texts first, so that no flight waits for the making of another's.
  std::vector<State::Call> calls(wanted.size());
  std::vector<std::optional<ContentKey>> contents(wanted.size());
  pool.run(wanted.size(), 1, [&](uint64_t i, uint64_t) {
    const auto& [kernel, signature, make_job] = wanted[i];
    const uint64_t hash = VariantTable::hash_of(kernel, signature);
    if (s.find(kernel, signature, hash)) return;
    try {
      Result<CompileJob> job = make_job();
      failures[i] = job.failure();
      if (!job) return void(s.count_failure(job.failure()));
      calls[i] = {kernel, &signature, hash, std::move(job).value()};
      Result<ContentKey> content = s.key_of(calls[i].job);
      failures[i] = content.failure();
      if (!content) return void(s.count_failure(content.failure()));
      contents[i] = std::move(content).value();
    } catch (const std::exception& error) {
      failures[i] = s.count_failure(failure_of(error, calls[i].job.kernel));
    } catch (...) {
      failures[i] = s.count_failure(failure_of_unknown(calls[i].job.kernel));
    }
  });

  std::vector<State::Claim> claims(wanted.size());
  std::vector<State::Departure> own;
  own.reserve(wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!contents[i]) continue;
    claims[i] = s.claim(calls[i], *contents[i]);
    if (claims[i].own) own.emplace_back(s, calls[i], claims[i].flight);
  }
  pool.run(own.size(), 1,
           [&](uint64_t i, uint64_t) { unless_out_of_memory([&] { s.make_from_disk(own[i]); }); });
  std::vector<State::Departure*> left;
  for (State::Departure& departure : own) {
    if (!departure.landed()) left.push_back(&departure);
  }
  const size_t batch = std::clamp<size_t>(ceil_div<size_t>(left.size(), threads), 1, kMostInBatch);
  pool.run(left.size(), batch, [&](uint64_t begin, uint64_t end) {
    unless_out_of_memory([&] { s.make(std::span(left).subspan(begin, end - begin)); });
  });
  own.clear();
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!claims[i].flight) continue;
    // Those of others last: nobody of whom this call waits can be waiting for it.
    failures[i] = claims[i].own ? claims[i].flight->failure
                                : s.outcome(calls[i], *claims[i].flight).failure();
  }
  return failures;
}

void VariantCache::clear() {
  VariantTable::Dropped dropped;
  const sync::Lock lock(state_->mutex);
  state_->table.clear(dropped);
}

void VariantCache::set_limits(CacheLimits limits) {
  VariantTable::Dropped dropped;
  const sync::Lock lock(state_->mutex);
  state_->limits = limits;
  state_->stats.evictions += state_->table.trim(limits, dropped);
}

CacheLimits VariantCache::limits() const {
  const sync::Lock lock(state_->mutex);
  return state_->limits;
}

CacheStats VariantCache::stats() const {
  const sync::Lock lock(state_->mutex);
  CacheStats stats = state_->stats;
  stats.variants = state_->table.variants();
  stats.bytes = state_->table.bytes();
  return stats;
}

DiskCacheStats VariantCache::disk_stats() const {
  return state_->disk ? state_->disk->stats() : DiskCacheStats();
}

}  // namespace holdfast::kernel
