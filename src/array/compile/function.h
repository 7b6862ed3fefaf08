#pragma once

#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "holdfast/array/compile/argument.h"
#include "holdfast/array/compile/compiled_call.h"
#include "holdfast/compile.h"

namespace holdfast::array {

// All that decides which program a call gets.
struct CallSignature {
  CallForm form;
  hal::DeviceId device;
  std::vector<ArgumentType> types;  // of the arguments, then of the state
  uint64_t hash = 0;

  CallSignature(CallForm form_of, const DeviceState& device_of, std::span<const Array> arrays);
  bool operator==(const CallSignature& other) const;
  // The same but for strides, places, and lengths of more than one.
  bool has_ranks_of(const CallSignature& other) const;
};

// Which argument varies most among the signatures, and how, for a warning: "argument 1 varies, last
// with the shapes (1, 7) and (1, 8)".
std::string say_what_varies(std::span<const CallSignature* const> signatures, size_t arguments);

// A function with its programs. Thread-safe.
class CompiledFunction final : public RefCounted {
 public:
  // UsageError for options that make no sense.
  explicit CompiledFunction(CompileOptions options);
  ~CompiledFunction() override;

  TracedCall call(const CallForm& form, std::vector<Array> arguments, const FlatFunction& f);

 private:
  struct Entry {
    Ref<CompiledCall> call;  // null: f is to be called each time
    std::shared_ptr<const void> form;
#ifdef HOLDFAST_ABLATIONS
    std::vector<Array> first_state;
#endif
  };
  // What f did for arguments of some lengths, and does for all others.
  struct Shapeless {
    CallSignature signature;
    std::shared_ptr<const Trace> trace;
    std::shared_ptr<const void> form;
  };
  struct Programs {
    // Least recently used last.
    std::list<std::pair<CallSignature, std::shared_ptr<const Entry>>> entries;
    std::unordered_multimap<uint64_t, decltype(entries)::iterator> by_hash;
    bool warned = false;
    std::vector<std::shared_ptr<const Shapeless>> shapeless;

    // Null if there is none.
    std::shared_ptr<const Entry> find(const CallSignature& signature);
  };

  // `entry`, or what another thread has kept for the signature before.
  std::shared_ptr<const Entry> keep(CallSignature signature, std::shared_ptr<const Entry> entry);
  std::shared_ptr<const Trace> trace(const CallSignature& signature, size_t arguments,
                                     const Ref<StreamState>& stream, const FlatFunction& f,
                                     std::shared_ptr<const void>& form) const;
  // The same without calling f, where it was traced with as many axes.
  std::shared_ptr<const Trace> trace_for_lengths(const CallSignature& signature, size_t arguments,
                                                 const Ref<StreamState>& stream,
                                                 const FlatFunction& f,
                                                 std::shared_ptr<const void>& form) const;
  std::vector<Array> placeholders_of(const CallSignature& signature, size_t arguments,
                                     const Ref<StreamState>& stream) const;
  std::shared_ptr<const Entry> make_entry(const CallSignature& signature, size_t arguments,
                                          const Ref<StreamState>& stream,
                                          const FlatFunction& f) const;
  std::shared_ptr<const Trace> fused(const std::shared_ptr<const Trace>& traced) const;
  TracedCall call_uncompiled(DeviceState& device, std::span<const Array> arguments,
                             const FlatFunction& f) const;
  std::string called() const;
#ifdef HOLDFAST_ABLATIONS
  // Programs of dropped functions, the newest last; see Ablation::program_by_address.
  static sync::Guarded<std::vector<std::shared_ptr<sync::Guarded<Programs>>>>& vacated();
#endif

  const CompileOptions options_;
  std::shared_ptr<sync::Guarded<Programs>> programs_;
};

}  // namespace holdfast::array
