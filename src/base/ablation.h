#pragma once

// Ablations: one safety switched off, to show what it protects or what it costs. They exist only
// where HOLDFAST_ABLATIONS is defined (the dev, bench and sanitizer presets); release code holds
// none of them, and there `ablated` is the constant false.

#ifdef HOLDFAST_ABLATIONS
#include <atomic>
#include <cstdint>
#include <string_view>
#endif

namespace holdfast {

enum class Ablation : unsigned {
  // Lifetime
  bound_not_held,               // binding neither holds the Allocation nor marks its Frontier
  range_recycled_at_death,      // the block is held, but its dead range is given out at once
  donated_output_not_held,      // what is bound for reading and writing is not held
  temporaries_not_held,         // staging memory is not held
  pipelines_not_held,           // a dispatch does not hold its pipeline
  destroyed_at_submit,          // what a list holds is let go when it is submitted
  destroyed_at_flush_overflow,  // more than two dead ranges at a flush: they are free
  trim_frees_in_flight,         // trim frees every dead range
  // Order
  war_ignored,                  // a write after a read needs no order
  hazards_by_view,              // only equal ranges conflict
  cross_queue_reuse_unordered,  // any lane gets any dead range, with no wait for its last life
  host_access_not_ordered,      // maps and readbacks wait for nobody
  // Identity
  shared_parameter_slot,         // all dispatches of a pipeline share their parameters
  identity_by_recycled_address,  // a new stream is taken for the one whose place it has
  // Retirement and waits
  retire_on_overflow_only,     // a flush retires only where many lists are in flight
  readback_does_not_retire,    // what a readback has seen finished stays held
  point_before_error,          // a failed Point answers before its error is stored
  lock_held_while_holds_drop,  // users' deleters run with the lock of retirement held
  fifo_of_three_drains,        // more than three displaced submissions: wait for the whole queue
  drain_every_32_flushes,      // every 32nd flush waits for the whole queue
  // Kernels
  kernel_key_by_name,            // a kernel is its name
  kernel_key_clear_on_mismatch,  // and another content replaces and destroys the pipeline it had
  evicted_in_flight,             // lists leave it to the cache to keep their pipelines
  cached_before_compiled,        // an entry is made before its compile succeeds
  hash_without_equality,         // keys with equal hashes are taken to be equal
  key_without_lengths,           // the fields of a key follow each other without their lengths
  // Arrays
  scratch_not_held,    // what an operation works in is not held
  donated_while_seen,  // a node takes its input's memory although others can see it
  // Compiled functions
  program_by_address,              // a program belongs to whatever function has that address
  program_key_without_shape,       // arguments of any shape get the same program
  program_keeps_first_state,       // replays use the state array of the first call
  arena_shared_by_replays,         // replays in flight work in the same bytes
  arena_freed_after_first_reader,  // bytes are given out again while another branch needs them
  // CUDA graphs
  graph_reused_in_flight,        // an executable is taken although its last list is in flight
  graph_keeps_stale_parameters,  // a node keeps the parameters that it had for the list before
  graph_key_without_kernels      // the shape of a list does not name its kernels
};

#ifdef HOLDFAST_ABLATIONS

inline constexpr unsigned kAblationCount = 36;
// From this one on they are of the kernel cache; src/kernel/cache/ablations_test.cc kills them.
inline constexpr Ablation kFirstKernelAblation = Ablation::kernel_key_by_name;
// And from this one on of arrays; src/array/scenarios/ablations_test.cc does.
inline constexpr Ablation kFirstArrayAblation = Ablation::scratch_not_held;
// And from this one on of compiled functions; src/array/scenarios/compile_ablations_test.cc does.
inline constexpr Ablation kFirstCompileAblation = Ablation::program_by_address;
// And from this one on of CUDA graphs; src/hal/cuda/cuda_graph_ablations_test.cc does.
inline constexpr Ablation kFirstGraphAblation = Ablation::graph_reused_in_flight;
// The kebab-case token of HOLDFAST_ABLATE.
std::string_view ablation_token(Ablation ablation);

namespace internal {
extern std::atomic<uint64_t> ablation_bits;
}

// Thread-safe; one relaxed load.
inline bool ablated(Ablation a) noexcept {
  return ((internal::ablation_bits.load(std::memory_order_relaxed) >> static_cast<unsigned>(a)) &
          1U) != 0;
}

// Whether any is on: what asks for several asks for this first.
inline bool any_ablated() noexcept {
  return internal::ablation_bits.load(std::memory_order_relaxed) != 0;
}

// Switches one ablation on for a scope. Scopes nest; they are process-wide, not per thread.
class ScopedAblation {
 public:
  explicit ScopedAblation(Ablation ablation);
  ~ScopedAblation();
  ScopedAblation(const ScopedAblation&) = delete;
  ScopedAblation& operator=(const ScopedAblation&) = delete;

 private:
  uint64_t before_;
};

#else

constexpr bool ablated(Ablation) noexcept { return false; }
constexpr bool any_ablated() noexcept { return false; }

#endif

// Called once by each Context: switches on what HOLDFAST_ABLATE names. An unknown token, or the
// variable in a build without ablations, raises EnvironmentError: a run that was meant to lack a
// safety must not pass for one that has it.
void read_safety_overrides();

}  // namespace holdfast
