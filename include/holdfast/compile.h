#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <typeindex>
#include <utility>
#include <vector>

#include "holdfast/array_tree.h"

namespace holdfast::array {
class CompiledFunction;
}

#pragma GCC visibility push(default)

namespace holdfast {

// compile(f) returns a function with the same results as f that runs f's graph as one program: f is
// called once for each signature of its arguments, to see what it computes (it is *traced*). The
// graph is then planned, its kernels are found, and all its commands are recorded into a program of
// the device. Later calls only replay that program.
//
//   auto step = hf::compile([&](const hf::Array& x) { return hf::tanh(hf::matmul(x, w)); });
//   hf::Array y = step(x);      // traced; a node, like the result of any operation
//   y = step(y);                // replayed
//
// A call is lazy. It builds one node, whose inputs are the arguments that the graph uses and whose
// results are those of the function; evaluating any of them runs all of the program. So errors,
// waits, streams, budgets, other threads and exit treat it like every other node.
//
// What f may do. It gets arrays without elements: reading one (eval, item, to_vector, map,
// printing) raises UsageError, and so does evaluating anything that depends on one. Everything else
// that f does on the host happens once for each signature, not once for each call: numbers, shapes
// and random keys that it computes are fixed from then on. Arrays that f uses and that are neither
// arguments nor state are constants. They are evaluated when f is traced, kept alive by the
// program, and never looked at again: dropping them, or assigning another array to the variable
// that f captured, changes nothing. The same holds for what f computes from constants alone. If f
// throws, the call throws that, and nothing is left behind; the next call traces again.
//
// Signatures. Arguments and state decide by dtype, shape, strides, alignment and device which
// program is used; their memory, and where in it a view begins, may differ from call to call. A
// function keeps at most `max_programs` programs and drops the least recently used. When it has to,
// it warns once, and names the argument that varies. A program in use is not affected.
//
// Memory. A program needs one block of memory for its intermediates, which share it as their
// lifetimes allow. Every replay takes its own block, and memory for its results, from the device's
// allocator, within the memory limit and the budget for deferred memory. So any number of replays
// may be in flight, from any threads and streams. Arguments are never written to; two arguments may
// be the same array or overlap.
//
// State. `state` lists variables that f reads and assigns. A call takes each variable's present
// array, whoever put it there, and assigns the new one. It works in the old array's memory if
// nobody else can see that array, and copies it first otherwise (counted in Stats::hidden_copies).
// The variables must outlive the function. Two calls that overlap and share a variable raise
// UsageError: order them. A call that throws leaves the state as it was. A node that fails leaves
// state that raises its failure; assign a good array to go on.
//
// Fusion. Elementwise operations, casts and where become one kernel with their neighbours, and with
// reductions and softmax along the last axis, unless `fuse` is false. What elementwise operations
// compute has the same bits as without: each result is rounded to its dtype, and no product is
// fused with a sum. A reduction that shares a kernel keeps the error it has alone, but may round
// otherwise. Kernels that users wrote stay as they are. HOLDFAST_LOG=compile says what became one
// kernel, and why a reduction did not.
//
// Errors are the same as without compile: a kernel that does not compile, and memory that is not
// there, are raised when a result is evaluated, and a failure on the device reaches whoever depends
// on it. The results of one call are results of one node, though: a kernel that does not compile
// fails all of them (the message has its name, not the label of its call), and constants that
// cannot be evaluated are reported by the call itself.
//
// Not compiled. Some functions run as if they were not compiled, with f called every time: if
// arguments or operations are on more than one device, if an operation records native commands
// (Encoder::native), or if f shows the memory around an argument that is a view (as_strided). Stats
// counts such calls, and HOLDFAST_LOG=compile says why. A compiled function that is called while
// another one is traced becomes part of that one; it must not have state.
//
// Streams. The program runs on the stream of the call: the thread's innermost UseStream, if it
// belongs to the arguments' device, else that device's default stream. Streams that f names are
// ignored, except when f is not compiled.
//
// Threads. Any thread may call a compiled function at any time; copies share their programs. f is
// called on the calling thread with no lock held, so several threads may be inside f at once if
// they meet new signatures. The last copy may be dropped on any thread, with replays in flight.
//
// Cost of a call, once traced: a lookup of the signature (a few words for each argument) and one
// node. Cost of a replay: one submission with a binding for each argument and result in use. There
// are several submissions where there are more than 256 of these, and around each matrix product by
// a device's library. SubmitLimits do not cut a program.
struct CompileOptions {
  // For errors and logs.
  std::string name = "compiled function";
  // Variables that f reads and assigns; see above. UsageError if one is null or listed twice.
  std::vector<Array*> state{};
  // Traces f in every call and raises UsageError if it computes something else than the program
  // does: other operations, other types, or constants with other elements. For debugging: it waits
  // for the constants. Numbers that f gives to operations are not compared.
  bool check = false;
  // Calls f once for all lengths of the arguments' axes: dtypes, the number of axes, and which of
  // these have length 1 or none decide, and for other lengths f's operations are repeated without
  // f. So numbers that f computes of shapes are fixed, and f may use elementwise operations,
  // reductions, softmax, scans, norms, matrix products, and views that exchange axes or insert and
  // drop those of length 1. UsageError names whatever else f does, and arrays with axes that it
  // makes from no argument; your own operations say what they do for other lengths
  // (Operation::output_shapes), kernels cannot. Programs are still made for each shape. Arguments
  // that are not row-contiguous are copied first.
  bool shapeless = false;
  // Whether operations share kernels; see above.
  bool fuse = true;
  // How many signatures are kept. UsageError for zero. The default was chosen, not measured.
  size_t max_programs = 64;
};

namespace array {

// What f returned: its arrays, and a copy of it in which they are to be put.
struct TracedCall {
  std::vector<Array> arrays;
  std::shared_ptr<const void> form;
};
using FlatFunction = std::function<TracedCall(std::span<const Array>)>;

// The types of a call, and the lengths of the vectors among its arguments.
struct CallForm {
  std::type_index types;
  std::vector<size_t> lengths;
};

HiddenRef<CompiledFunction> make_compiled(CompileOptions options);
// `f` is called here or not at all.
TracedCall call_compiled(const HiddenRef<CompiledFunction>& function, const CallForm& form,
                         std::vector<Array> arguments, const FlatFunction& f);

}  // namespace array

// What compile() returns. Call it with the arguments of f: arrays and trees of arrays (ArrayTree).
template <typename F>
class Compiled {
 public:
  Compiled(F f, CompileOptions options)
      : f_(std::make_shared<const F>(std::move(f))),
        function_(array::make_compiled(std::move(options))) {}

  template <typename... Arguments>
  auto operator()(const Arguments&... arguments) const {
    using Result = std::decay_t<std::invoke_result_t<const F&, const Arguments&...>>;
    array::CallForm form{typeid(std::tuple<Arguments...>), {}};
    std::vector<Array> flat;
    [[maybe_unused]] const auto length = [&](size_t n) { form.lengths.push_back(n); };
    [[maybe_unused]] const auto collect = [&](const Array& array) { flat.push_back(array); };
    (array::visit_tree(arguments, collect, length), ...);

    const array::FlatFunction trace = [&](std::span<const Array> given) {
      std::tuple<Arguments...> trees(arguments...);
      size_t next = 0;
      [[maybe_unused]] const auto assign = [&](Array& array) { array = given[next++]; };
      std::apply([&](auto&... tree) { (array::visit_tree(tree, assign, [](size_t) {}), ...); },
                 trees);
      return flattened<Result>([&] { return std::apply(*f_, std::as_const(trees)); });
    };
    array::TracedCall called = array::call_compiled(function_, form, std::move(flat), trace);
    if constexpr (!std::is_void_v<Result>) {
      Result result = *static_cast<const Result*>(called.form.get());
      size_t next = 0;
      array::visit_tree(
          result, [&](Array& array) { array = std::move(called.arrays[next++]); }, [](size_t) {});
      return result;
    }
  }

 private:
  template <typename Result, typename Call>
  static array::TracedCall flattened(const Call& call) {
    array::TracedCall traced;
    if constexpr (std::is_void_v<Result>) {
      call();
    } else {
      auto result = std::make_shared<Result>(call());
      array::visit_tree(
          *result, [&](Array& array) { traced.arrays.push_back(std::exchange(array, Array())); },
          [](size_t) {});
      traced.form = std::move(result);
    }
    return traced;
  }

  std::shared_ptr<const F> f_;
  HiddenRef<array::CompiledFunction> function_;
};

// See CompileOptions, above all of which the contract stands. f is copied or moved in; it is called
// as const.
template <typename F>
Compiled<std::decay_t<F>> compile(F&& f, CompileOptions options = {}) {
  return {std::forward<F>(f), std::move(options)};
}

}  // namespace holdfast

#pragma GCC visibility pop
