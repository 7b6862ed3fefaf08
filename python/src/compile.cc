#include "holdfast/compile.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "python/src/bindings.h"
#include "python/src/tree.h"

namespace holdfast::python {
namespace {

bool disabled = false;

// The forms of what a function returned and left in its outputs, with empty arrays in them.
struct ReturnedForm {
  nb::object result;
  nb::object outputs;  // null: there are none
  // For each array of the state: whether f put another object in its place. Else that which is
  // there has got other elements.
  std::vector<bool> replaced;
};

// Whoever drops it may have no GIL.
void drop_form(const ReturnedForm* form) {
  run_with_gil_later([owned = std::shared_ptr<const ReturnedForm>(form)] {});
}

// Puts an array where the leaf is: in a new object, or in the one that is there.
void put(const Tree::Leaf& leaf, const Array& array, bool in_new_object) {
  if (!in_new_object || !leaf.container.is_valid()) {
    *array_in(leaf.array) = array;
  } else if (PyObject_SetItem(leaf.container.ptr(), leaf.key.ptr(), nb::cast(array).ptr()) != 0) {
    throw nb::python_error();
  }
}

// Into the objects that are there: f may know them by other ways, too.
void put_all(const Tree& tree, std::span<const Array> arrays) {
  for (size_t i = 0; i < arrays.size(); ++i) put(tree.leaves()[i], arrays[i], false);
}

// While it lives, arrays stand in the tree that are not the caller's; then the caller's again.
class Replaced {
 public:
  explicit Replaced(const Tree& tree) : tree_(tree), containers_(tree.containers()) {
    for (const Tree::Leaf& leaf : tree.leaves()) before_.push_back(*array_in(leaf.array));
  }
  ~Replaced() {
    for (size_t i = 0; i < before_.size(); ++i) {
      *array_in(tree_.leaves()[i].array) = std::move(before_[i]);
    }
    // An error on its way out stays the one that is told.
    const nb::error_scope scope;
    try {
      containers_.restore();
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("holdfast.compile");
    }
  }
  Replaced(const Replaced&) = delete;
  Replaced& operator=(const Replaced&) = delete;

 private:
  const Tree& tree_;
  SavedContainers containers_;
  std::vector<Array> before_;
};

// Lists, dicts and arrays that functions capture and that a call uses now, with the thread of that
// call: while it traces, they show what is not their owner's. The GIL guards it.
std::unordered_map<PyObject*, unsigned long>& captured_in_use() {
  static std::unordered_map<PyObject*, unsigned long>& all =
      *std::make_unique<std::unordered_map<PyObject*, unsigned long>>().release();
  return all;
}
// Told when a call has ended that used any, if somebody waits for that.
class CapturedChanged {
 public:
  CapturedChanged() { condition().attr("acquire")(); }
  ~CapturedChanged() {
    const nb::error_scope scope;  // of a wait that was interrupted
    try {
      condition().attr("release")();
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("holdfast.compile");
    }
  }
  CapturedChanged(const CapturedChanged&) = delete;
  CapturedChanged& operator=(const CapturedChanged&) = delete;

  void wait() const { condition().attr("wait")(); }
  void notify_all() const { condition().attr("notify_all")(); }

 private:
  static const nb::object& condition() {
    static const nb::object& made =
        *std::make_unique<nb::object>(nb::module_::import_("threading").attr("Condition")())
             .release();
    return made;
  }
};
size_t waiting_for_captured = 0;  // calls; the GIL guards it

class CapturedUse {
 public:
  enum class Kind : uint8_t { state, inputs };

  // UsageError for state that another call uses; for inputs it waits until that call has ended,
  // without the GIL. A call inside another one of this thread may use the same inputs.
  CapturedUse(const Tree& tree, Kind kind, const std::string& name) {
    std::vector<PyObject*> wanted;
    for (const nb::object& container : tree.containers()) wanted.push_back(container.ptr());
    for (const Tree::Leaf& leaf : tree.leaves()) wanted.push_back(leaf.array.ptr());
    const unsigned long self = PyThread_get_thread_ident();
    auto& all = captured_in_use();
    const auto is_taken = [&] {
      return std::ranges::any_of(wanted, [&](PyObject* object) {
        const auto found = all.find(object);
        return found != all.end() && (kind == Kind::state || found->second != self);
      });
    };
    if (is_taken() && kind == Kind::state) {
      throw UsageError("two calls that overlap share state of the compiled function '" + name +
                       "': give every thread its own state, or let one call return before the "
                       "next begins");
    }
    if (is_taken()) {
      struct Waiting {
        Waiting() { ++waiting_for_captured; }
        ~Waiting() { --waiting_for_captured; }
      };
      const Waiting waiting;
      const CapturedChanged changed;
      while (is_taken()) changed.wait();
      waited_ = true;
    }
    for (PyObject* object : wanted) {
      if (all.emplace(object, self).second) mine_.push_back(object);
    }
  }
  ~CapturedUse() {
    if (mine_.empty()) return;
    for (PyObject* object : mine_) captured_in_use().erase(object);
    if (waiting_for_captured == 0) return;
    const nb::error_scope scope;
    try {
      CapturedChanged().notify_all();
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("holdfast.compile");
    }
  }
  CapturedUse(const CapturedUse&) = delete;
  CapturedUse& operator=(const CapturedUse&) = delete;

  bool waited() const noexcept { return waited_; }

 private:
  std::vector<PyObject*> mine_;
  bool waited_ = false;
};

// How many functions a thread is tracing. The GIL guards it.
std::unordered_map<unsigned long, size_t>& tracing_threads() {
  static std::unordered_map<unsigned long, size_t>& all =
      *std::make_unique<std::unordered_map<unsigned long, size_t>>().release();
  return all;
}
class TracingHere {
 public:
  TracingHere() : depth_(tracing_threads()[PyThread_get_thread_ident()]) { ++depth_; }
  ~TracingHere() {
    if (--depth_ == 0) tracing_threads().erase(PyThread_get_thread_ident());
  }
  TracingHere(const TracingHere&) = delete;
  TracingHere& operator=(const TracingHere&) = delete;
  static bool any() { return tracing_threads().contains(PyThread_get_thread_ident()); }

 private:
  size_t& depth_;
};

// hf.compile(f) with one number of state arrays.
struct Variant {
  std::vector<std::unique_ptr<Array>> state;
  HiddenRef<array::CompiledFunction> function;
};

class CompiledObject {
 public:
  CompiledObject(nb::object f, nb::object inputs, nb::object outputs, nb::object state,
                 CompileOptions options)
      : f_(std::move(f)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        state_(std::move(state)),
        options_(std::move(options)) {
    if (!outputs_.is_none() && PyList_CheckExact(outputs_.ptr()) == 0 &&
        PyDict_CheckExact(outputs_.ptr()) == 0) {
      throw nb::type_error("outputs is a list or a dict, which each call gives its items anew");
    }
    // Options that make no sense are refused here.
    (void)variant_for(0);
  }
  CompiledObject(const CompiledObject&) = delete;
  CompiledObject& operator=(const CompiledObject&) = delete;

  nb::object call(const nb::args& args, const nb::kwargs& kwargs);

  int traverse(visitproc visit, void* arg) const {
    for (const nb::object* object : {&f_, &inputs_, &outputs_, &state_}) {
      if (object->is_valid()) Py_VISIT(object->ptr());
    }
    for (const nb::object& type : types_) Py_VISIT(type.ptr());
    return 0;
  }
  void clear() {
    for (nb::object* object : {&f_, &inputs_, &outputs_, &state_}) object->reset();
    types_.clear();
  }
  const nb::object& function() const noexcept { return f_; }
  const std::string& name() const noexcept { return options_.name; }

 private:
  struct Call;

  Variant& variant_for(size_t state_arrays);
  array::TracedCall trace(Call& call, std::span<const Array> given) const;
  void keep_types(const Tree& tree);

  nb::object f_;
  nb::object inputs_;
  nb::object outputs_;
  nb::object state_;
  const CompileOptions options_;
  std::map<size_t, std::unique_ptr<Variant>> variants_;  // by the number of state arrays
  std::vector<nb::object> types_;
};

struct CompiledObject::Call {
  const nb::args& args;
  const nb::kwargs& kwargs;
  Tree inputs{};
  Tree state{};
  Variant* variant = nullptr;
  std::optional<ReleaseGil> released{};  // once f is through, until the call is
};

Variant& CompiledObject::variant_for(size_t state_arrays) {
  std::unique_ptr<Variant>& variant = variants_[state_arrays];
  if (variant) return *variant;
  auto made = std::make_unique<Variant>();
  CompileOptions options = options_;
  for (size_t i = 0; i < state_arrays; ++i) {
    made->state.push_back(std::make_unique<Array>());
    options.state.push_back(made->state.back().get());
  }
  made->function = array::make_compiled(std::move(options));
  variant = std::move(made);
  return *variant;
}

void CompiledObject::keep_types(const Tree& tree) {
  for (const nb::object& type : tree.types()) {
    const bool known =
        std::ranges::any_of(types_, [&](const nb::object& other) { return other.is(type); });
    if (!known) types_.push_back(type);
  }
}

// Calls f with these arrays in place of the caller's, wherever f finds them.
array::TracedCall CompiledObject::trace(Call& call, std::span<const Array> given) const {
  call.released.reset();  // from the time before, where f is traced twice
  array::TracedCall traced;
  auto form = std::make_unique<ReturnedForm>();
  {
    size_t next = 0;
    const nb::object args = rebuilt(call.args, given, next);
    const nb::object kwargs = rebuilt(call.kwargs, given, next);
    const Tree empty;
    std::optional<Tree> outputs;
    if (!outputs_.is_none()) outputs.emplace().add(outputs_, "outputs");
    const Replaced outputs_replaced(outputs ? *outputs : empty);
    const Replaced inputs_replaced(call.inputs);
    const Replaced state_replaced(call.state);
    put_all(call.inputs, given.subspan(next));
    std::vector<Array> state;
    for (const std::unique_ptr<Array>& variable : call.variant->state) state.push_back(*variable);
    put_all(call.state, state);

    const TracingHere tracing;
    nb::object result = nb::steal(PyObject_Call(f_.ptr(), args.ptr(), kwargs.ptr()));
    if (!result.is_valid()) throw nb::python_error();
    const auto take = [&](nb::handle object, const char* what) {
      Tree tree;
      tree.add(object, what);
      const std::vector<Array> arrays = tree.arrays();
      traced.arrays.insert(traced.arrays.end(), arrays.begin(), arrays.end());
      size_t first = 0;
      return rebuilt(object, std::vector<Array>(arrays.size()), first);
    };
    form->result = take(result, "the result");
    if (outputs) form->outputs = take(outputs_, "outputs");
    if (!state_.is_none()) {
      Tree left;
      left.add(state_, "state");
      if (left.form() != call.state.form()) {
        throw nb::value_error(
            ("the compiled function '" + options_.name +
             "' left its state in another form (other keys, lengths or constants); give what "
             "comes and goes as outputs")
                .c_str());
      }
      const std::vector<Array> arrays = left.arrays();
      for (size_t i = 0; i < arrays.size(); ++i) {
        *call.variant->state[i] = arrays[i];
        const Tree::Leaf& before = call.state.leaves()[i];
        form->replaced.push_back(!left.leaves()[i].array.is(before.array));
        if (form->replaced.back() && !before.container.is_valid()) {
          throw nb::value_error(("the compiled function '" + options_.name +
                                 "' put another array into a tuple of its state; use a list or a "
                                 "dict there, or update the array itself: x[:] = ...")
                                    .c_str());
        }
      }
    }
  }
  traced.form = std::shared_ptr<const ReturnedForm>(form.release(), &drop_form);
  // What f has used is evaluated next, and may have to be compiled.
  call.released.emplace();
  return traced;
}

nb::object CompiledObject::call(const nb::args& args, const nb::kwargs& kwargs) {
  drain_tasks();
  if (!f_.is_valid()) throw UsageError("a compiled function is called while it is collected");
  if (disabled) return f_(*args, **kwargs);
  Call call{args, kwargs};
  Tree tree;
  tree.add(args, "arguments");
  tree.add(kwargs, "keyword arguments");
  if (!inputs_.is_none()) call.inputs.add(inputs_, "inputs");
  if (!state_.is_none()) call.state.add(state_, "state");
  const Tree& state = call.state;
  if (!outputs_.is_none() && TracingHere::any()) {
    throw UsageError("the compiled function '" + options_.name +
                     "' has outputs and is called while another function is traced; compile the "
                     "outer function alone, with these outputs");
  }
  const CapturedUse state_use(state, CapturedUse::Kind::state, options_.name);
  const CapturedUse inputs_use(call.inputs, CapturedUse::Kind::inputs, options_.name);
  if (inputs_use.waited()) {  // they were another call's until now
    call.inputs = Tree();
    call.inputs.add(inputs_, "inputs");
  }
  keep_types(tree);
  keep_types(call.inputs);
  keep_types(state);

  std::vector<Array> arguments = tree.arrays();
  const std::vector<Array> inputs = call.inputs.arrays();
  arguments.insert(arguments.end(), inputs.begin(), inputs.end());
  array::CallForm form{typeid(CompiledObject), {}};
  for (const Tree* part : std::initializer_list<const Tree*>{&tree, &call.inputs, &state}) {
    const std::string& text = part->form();
    form.lengths.push_back(text.size());
    // Which of its arrays are one object: f sees one there, too.
    if (part != &tree) {
      std::unordered_map<PyObject*, size_t> first;
      for (const Tree::Leaf& leaf : part->leaves()) {
        form.lengths.push_back(first.emplace(leaf.array.ptr(), first.size()).first->second);
      }
    }
    for (size_t at = 0; at < text.size(); at += sizeof(size_t)) {
      size_t word = 0;
      text.copy(reinterpret_cast<char*>(&word), sizeof word, at);
      form.lengths.push_back(word);
    }
  }

  call.variant = &variant_for(state.leaves().size());
  std::vector<std::unique_ptr<Array>>& variables = call.variant->state;
  for (size_t i = 0; i < variables.size(); ++i) {
    *variables[i] = *array_in(state.leaves()[i].array);
  }
  const auto forget_state = [&] {
    for (const std::unique_ptr<Array>& variable : variables) *variable = Array();
  };
  array::TracedCall called;
  try {
    called = array::call_compiled(call.variant->function, form, std::move(arguments),
                                  [&](std::span<const Array> given) { return trace(call, given); });
    call.released.reset();
  } catch (...) {
    call.released.reset();
    forget_state();
    throw;
  }
  const auto& returned = *static_cast<const ReturnedForm*>(called.form.get());
  for (size_t i = 0; i < variables.size(); ++i) {
    put(state.leaves()[i], *variables[i], returned.replaced[i]);
  }
  forget_state();
  size_t next = 0;
  nb::object result = rebuilt(returned.result, called.arrays, next);
  if (returned.outputs.is_valid()) {
    assign_items(outputs_, rebuilt(returned.outputs, called.arrays, next));
  }
  return result;
}

const CompiledObject* compiled_in(PyObject* self) {
  return nb::inst_ready(self) ? nb::inst_ptr<CompiledObject>(self) : nullptr;
}

int traverse_compiled(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  const CompiledObject* const compiled = compiled_in(self);
  return compiled == nullptr ? 0 : compiled->traverse(visit, arg);
}

int clear_compiled(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<CompiledObject>(self)->clear();
  return 0;
}

PyType_Slot compiled_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_compiled)},
                                {Py_tp_clear, reinterpret_cast<void*>(clear_compiled)},
                                {0, nullptr}};

}  // namespace

void bind_compile(nb::module_& m) {
  nb::class_<CompiledObject>(m, "_Compiled", nb::type_slots(compiled_slots),
                             "What compile() returns. Call it as the function itself.")
      .def(
          "__init__",
          [](CompiledObject* self, nb::object f, nb::object inputs, nb::object outputs,
             nb::object state, std::string name, bool check, bool fuse, bool shapeless,
             size_t max_programs) {
            CompileOptions options;
            options.name = std::move(name);
            options.check = check;
            options.fuse = fuse;
            options.shapeless = shapeless;
            options.max_programs = max_programs;
            new (self) CompiledObject(std::move(f), std::move(inputs), std::move(outputs),
                                      std::move(state), std::move(options));
          },
          "fun"_a, nb::arg("inputs").none(), nb::arg("outputs").none(), nb::arg("state").none(),
          "name"_a, "check"_a, "fuse"_a, "shapeless"_a, "max_programs"_a)
      .def("__call__", &CompiledObject::call,
           nb::sig("def __call__(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any"))
      .def_prop_ro("__wrapped__", [](const CompiledObject& self) { return self.function(); })
      // __name__, __doc__, __module__ and so on: those of the function.
      .def(
          "__getattr__",
          [](const CompiledObject& self, const nb::str& attribute) {
            return nb::getattr(self.function(), attribute);
          },
          nb::sig("def __getattr__(self, attribute: str) -> typing.Any"))
      .def("__repr__",
           [](const CompiledObject& self) { return "<compiled function '" + self.name() + "'>"; });
  m.def(
      "disable_compile", [] { disabled = true; },
      "From now on compiled functions call the function itself, each time. For debugging.");
  m.def(
      "enable_compile", [] { disabled = false; }, "Undoes disable_compile().");
}

}  // namespace holdfast::python
