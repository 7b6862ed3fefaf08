#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "holdfast/base/sync/annotations.h"
#include "holdfast/base/sync/condition.h"
#include "holdfast/base/sync/mutex.h"
#include "holdfast/hal/cuda/cublaslt_api.h"
#include "holdfast/hal/cuda/cuda_api.h"
#include "holdfast/testing/stub_cuda/arena.h"
#include "holdfast/testing/stub_cuda/interface.h"

// Everything the stub driver knows, behind one mutex: see Held.

namespace holdfast::stub_cuda {

using namespace hal::cu;  // the driver's names are what this library is made of

inline constexpr CUresult CUDA_ERROR_OPERATING_SYSTEM = 304;            // NOLINT
inline constexpr CUresult CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713;  // NOLINT

// Objects by handle. A handle's value is never given out again, so one that was destroyed is known
// to be.
template <typename T, typename Handle>
class Handles {
 public:
  explicit Handles(uintptr_t kind) : base_(kind << 40) {}

  Handle add(std::shared_ptr<T> object) {
    const uintptr_t value = base_ + (++last_ << 4);
    objects_.emplace(value, std::move(object));
    return pointer_of<std::remove_pointer_t<Handle>>(value);
  }
  // Null where there is none, or none any more.
  std::shared_ptr<T> find(Handle handle) const {
    const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
    return found == objects_.end() ? nullptr : found->second;
  }
  std::shared_ptr<T> remove(Handle handle) {
    const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<T> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }
  template <typename Predicate>
  void remove_if(Predicate predicate) {
    std::erase_if(objects_, [&](const auto& entry) { return predicate(*entry.second); });
  }
  template <typename Body>
  void for_each(Body body) const {
    for (const auto& [handle, object] : objects_) body(object);
  }
  size_t size() const { return objects_.size(); }

 private:
  uintptr_t base_;
  uintptr_t last_ = 0;
  std::map<uintptr_t, std::shared_ptr<T>> objects_;
};

struct Context {
  int device = 0;
  CUresult error = CUDA_SUCCESS;  // sticky
  bool destroyed = false;
  bool stopped() const { return destroyed || error != CUDA_SUCCESS; }
};

struct Device {
  StubDevice description;
  uint64_t used = 0;  // bytes of device memory
  CUcontext primary = nullptr;
  unsigned retains = 0;
};

enum class MemoryOf : uint8_t { device, host, registered };

// Memory that the driver gave out or was told of.
struct Allocation {
  std::string call;  // which made it
  MemoryOf kind = MemoryOf::device;
  uintptr_t begin = 0;
  size_t bytes = 0;
  std::shared_ptr<Context> context;
  Mapping mapping{};        // unmapped once nothing in flight uses it
  size_t users = 0;         // operations in flight that touch it
  bool available = true;    // whether the stream has come to its allocation
  bool free_asked = false;  // no further use may be queued
  bool freed = false;
  uintptr_t end() const { return begin + bytes; }
};

// The bytes of each argument that a kernel declares; none where its image does not say.
using ArgumentSizes = std::optional<std::vector<size_t>>;

// A kernel as its module's image describes it.
struct KernelImage {
  ArgumentSizes arguments{};
  bool waits_for_grids = false;  // griddepcontrol.wait before it touches memory
};

struct Module {
  std::shared_ptr<Context> context;
  std::map<std::string, KernelImage, std::less<>> kernels;
  size_t users = 0;
  bool unloaded = false;
  bool idle = false;  // has every kernel
};

struct Function {
  std::string name;
  std::shared_ptr<Module> module;
  StubKernel kernel;
  ArgumentSizes arguments;
  bool waits_for_grids = false;
  int dynamic_shared_limit = 48 << 10;
  bool large_clusters = false;
};

// What a stream does in its turn.
struct Operation {
  std::string what;
  std::vector<std::shared_ptr<Allocation>> memory{};
  std::vector<std::shared_ptr<Module>> modules{};
  bool uses_freed_memory = false;
  // With the lock held: whether it may start. Null: it may.
  std::function<bool()> ready{};
  bool polls = false;  // ready() looks at memory whose changes nobody announces
  // Without the lock. Null: nothing to do.
  std::function<CUresult()> run{};
  // With the lock held, after run() succeeded.
  std::function<void()> done{};
  bool over = false;
};

struct Stream {
  std::string name;  // for people
  std::shared_ptr<Context> context;
  std::deque<std::shared_ptr<Operation>> queue;  // the first may be running
  bool running = false;
  bool blocked = false;  // the first is not ready
  bool held = false;
  bool started = false;  // its thread
  bool destroyed = false;
  bool blocking = false;  // it and the legacy stream wait for each other
  bool legacy = false;
  sync::Condition wake;
};

// One recording of an event.
struct Recording {
  bool done = false;
  sync::TimePoint when{};
};

struct Event {
  std::shared_ptr<Context> context;
  bool timed = true;
  std::shared_ptr<Recording> latest;  // null: never recorded
  size_t users = 0;                   // recordings and waits in flight
};

struct Pool {
  std::shared_ptr<Context> context;
  int device = 0;
};

// A handle of cuBLASLt.
struct Blas {
  std::shared_ptr<Context> context;
  size_t users = 0;  // products in flight
};

struct Graph;
struct GraphNode;
struct GraphExec;

// What freed memory was, to name it to whoever still uses it.
struct Freed {
  uintptr_t end = 0;
  std::string what;
  std::weak_ptr<const Arena> arena;  // gone: the addresses may be somebody else's by now
};

struct Failing {
  uint64_t first = 0;  // calls to come before it, and from which it counts
  uint64_t times = 0;
  CUresult result = CUDA_SUCCESS;
};

struct State {
  // What the driver is.
  int version = 12080;
  std::set<std::string, std::less<>> hidden;
  std::map<std::string, StubKernel, std::less<>> kernels;

  bool initialized = false;
  bool shuts_down_at_exit = false;
  bool has_shut_down = false;
  std::vector<Device> devices;
  Handles<Context, CUcontext> contexts{0x51};
  Handles<Stream, CUstream> streams{0x52};
  std::vector<std::shared_ptr<Stream>> legacy_streams;  // one a context, made on first use
  Handles<Event, CUevent> events{0x53};
  Handles<Module, CUmodule> modules{0x54};
  Handles<Function, CUfunction> functions{0x55};
  Handles<Pool, CUmemoryPool> pools{0x56};
  Handles<Graph, CUgraph> graphs{0x57};
  Handles<GraphNode, CUgraphNode> nodes{0x58};
  Handles<GraphExec, CUgraphExec> execs{0x59};
  Handles<Blas, hal::lt::cublasLtHandle_t> blas{0x5a};
  size_t blas_descriptors = 0;
  std::map<uintptr_t, std::shared_ptr<Allocation>> memory;  // by begin
  std::map<uintptr_t, Freed> freed;                         // by begin
  std::shared_ptr<Arena> arena;                             // that memory is cut from now
  // Those with a thread, destroyed ones included until they have drained.
  std::vector<std::shared_ptr<Stream>> active;
  bool all_held = false;
  sync::Condition progress;  // an operation ended, or a context stopped

  std::map<std::string, uint64_t, std::less<>> calls;
  std::map<std::string, uint64_t, std::less<>> synchronising;
  std::map<std::string, std::vector<Failing>, std::less<>> failing;
  std::vector<std::string> violations;
  StubGraphShape latest_graph;

  State();
  ~State();
};

// The state, while one lives. Nothing of it may be touched otherwise.
class Held {
 public:
  Held();
  State* operator->() const noexcept { return &state_; }
  State& operator*() const noexcept { return state_; }
  // For what runs outside: nothing of the state is touched until lock().
  void unlock() HOLDFAST_NO_LOCK_CHECK { lock_.unlock(); }
  void lock() HOLDFAST_NO_LOCK_CHECK { lock_.lock(); }
  template <typename Predicate>
  void wait(sync::Condition& condition, Predicate done) {
    condition.wait(lock_, done);
  }
  template <typename Predicate>
  bool wait_until(sync::Condition& condition, sync::Deadline deadline, Predicate done) {
    return condition.wait_until(lock_, deadline, done);
  }

 private:
  State& state_;
  sync::Lock lock_;
};

// Records something that a driver leaves undefined, and prints it.
void violation(State& state, std::string text);
template <typename... A>
void violation(State& state, fmt::format_string<A...> format, A&&... values) {
  violation(state, fmt::format(format, std::forward<A>(values)...));
}

// The calling thread's current context; a call that needs one returns what this does unless it is
// CUDA_SUCCESS.
CUresult enter(const State& state, std::shared_ptr<Context>& context);

// The object of a handle. One that was destroyed, or never was, is a violation.
template <typename T, typename Handle>
CUresult find(State& state, const Handles<T, Handle>& handles, Handle handle, const char* call,
              std::shared_ptr<T>& object) {
  object = handles.find(handle);
  if (object) return CUDA_SUCCESS;
  violation(state, "{} was given the handle {:#x}, which does not exist (any more)", call,
            reinterpret_cast<uintptr_t>(handle));
  return CUDA_ERROR_INVALID_HANDLE;
}

// The value of an attribute of a device; INVALID_VALUE where there is none.
CUresult attribute_of(const Device& device, int attribute, int& value);

// Faults: the context's streams execute nothing more, and its calls return the error.
void fault(State& state, Context& context, CUresult error);
// Every context.
void fault_all(State& state, CUresult error);

// The driver's end: see StubControl::shut_down().
void shut_down(Held& held);

// Whether a stream of the context has work in flight; counts the call if so.
void count_if_synchronising(State& state, const Context& context, const char* call);

}  // namespace holdfast::stub_cuda
