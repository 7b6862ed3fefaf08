#include "python/src/tree.h"

#include <cstring>

namespace holdfast::python {
namespace {

// Python's own limit would end the process long before a tree is this deep.
constexpr size_t kDeepest = 200;

// Subclasses have a meaning of their own, which a copy would lose; named tuples can be made again.
bool is_list(nb::handle object) { return PyList_CheckExact(object.ptr()) != 0; }
bool is_dict(nb::handle object) { return PyDict_CheckExact(object.ptr()) != 0; }
bool is_tuple(nb::handle object) {
  return PyTuple_CheckExact(object.ptr()) != 0 ||
         (PyTuple_Check(object.ptr()) != 0 && nb::hasattr(object, "_fields"));
}

std::string shown(nb::handle object) { return nb::cast<std::string>(nb::repr(object)); }

}  // namespace

std::vector<Array> Tree::arrays() const {
  std::vector<Array> all;
  all.reserve(leaves_.size());
  for (const Leaf& leaf : leaves_) all.push_back(*array_in(leaf.array));
  return all;
}

void Tree::add(nb::handle object, const std::string& what) {
  what_ = what;
  add_item(object, {}, {});
}

void Tree::add_item(nb::handle object, const nb::object& container, const nb::object& key) {
  if (array_in(object) != nullptr) {
    form_ += 'a';
    leaves_.push_back({nb::borrow(object), container, key});
    return;
  }
  const bool list = is_list(object);
  const bool dict = is_dict(object);
  if (!list && !dict && !is_tuple(object)) return add_constant(object);
  if (path_.size() == kDeepest) {
    throw nb::value_error((what_ + " is nested too deeply, or contains itself").c_str());
  }
  const nb::object here = nb::borrow(object);
  if (list || dict) containers_.push_back(here);
  const auto enter = [&](nb::handle item, const Step& at, const nb::object& place) {
    path_.push_back(at);
    add_item(item, place.is_valid() ? here : nb::object(), place);
    path_.pop_back();
  };
  if (dict) {
    // A copy: what runs in between may change the dict.
    const nb::object items = nb::steal(PyDict_Items(object.ptr()));
    add_word('d', nb::len(items));
    for (const nb::handle item : items) {
      const nb::object name = nb::borrow(PyTuple_GetItem(item.ptr(), 0));
      add_constant(name);
      enter(nb::handle(PyTuple_GetItem(item.ptr(), 1)), {name, 0}, name);
    }
    return;
  }
  const nb::object items = nb::steal(PySequence_Tuple(object.ptr()));
  const size_t count = nb::len(items);
  if (list) {
    add_word('l', count);
  } else {
    add_word('t', count);
    // Named tuples are made anew by their type.
    if (!PyTuple_CheckExact(object.ptr())) {
      types_.push_back(nb::borrow(object.type()));
      add_word('n', reinterpret_cast<uintptr_t>(types_.back().ptr()));
    }
  }
  for (size_t i = 0; i < count; ++i) {
    const nb::object place = list ? nb::object(nb::int_(i)) : nb::object();
    enter(nb::handle(PyTuple_GetItem(items.ptr(), static_cast<Py_ssize_t>(i))), {{}, i}, place);
  }
}

void Tree::add_word(char kind, uint64_t word) {
  form_ += kind;
  form_.append(reinterpret_cast<const char*>(&word), sizeof word);
}

void Tree::add_text(char kind, const char* data, size_t size) {
  add_word(kind, size);
  form_.append(data, size);
}

void Tree::add_constant(nb::handle object) {
  PyObject* const o = object.ptr();
  if (object.is_none()) {
    form_ += 'N';
  } else if (PyBool_Check(o)) {
    form_ += o == Py_True ? 'T' : 'F';
  } else if (PyLong_CheckExact(o)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow == 0) return add_word('i', static_cast<uint64_t>(value));
    const std::string digits = shown(object);
    add_text('I', digits.data(), digits.size());
  } else if (PyFloat_CheckExact(o)) {
    const double value = PyFloat_AsDouble(o);
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    add_word('f', bits);
  } else if (PyUnicode_CheckExact(o)) {
    Py_ssize_t size = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(o, &size);
    if (text == nullptr) throw nb::python_error();
    add_text('s', text, static_cast<size_t>(size));
  } else if (PyBytes_CheckExact(o)) {
    add_text('b', PyBytes_AsString(o), static_cast<size_t>(PyBytes_Size(o)));
  } else if (nb::isinstance<DtypeObject>(object)) {
    add_word('D', static_cast<uint64_t>(*dtype_from(object)));
  } else {
    refuse(object);
  }
}

void Tree::refuse(nb::handle object) const {
  std::string place = what_;
  for (const Step& step : path_) {
    place += "[" + (step.key.is_valid() ? shown(step.key) : std::to_string(step.position)) + "]";
  }
  const auto type = nb::cast<std::string>(nb::handle(object.type()).attr("__name__"));
  throw nb::type_error(
      (place + " is of type " + type +
       ": a compiled function takes and returns arrays and constants (numbers, strings, bytes, "
       "dtypes, None) in lists, tuples and dicts; make others arrays with hf.array, or let the "
       "function capture them")
          .c_str());
}

nb::object rebuilt(nb::handle tree, std::span<const Array> arrays, size_t& next) {
  if (array_in(tree) != nullptr) return nb::cast(arrays[next++]);
  if (is_dict(tree)) {
    nb::dict made;
    const nb::object items = nb::steal(PyDict_Items(tree.ptr()));
    for (const nb::handle item : items) {
      made[nb::handle(PyTuple_GetItem(item.ptr(), 0))] =
          rebuilt(nb::handle(PyTuple_GetItem(item.ptr(), 1)), arrays, next);
    }
    return made;
  }
  if (!is_list(tree) && !is_tuple(tree)) return nb::borrow(tree);
  nb::list made;
  const nb::object items = nb::steal(PySequence_Tuple(tree.ptr()));
  for (const nb::handle item : items) made.append(rebuilt(item, arrays, next));
  if (is_list(tree)) return made;
  const nb::tuple tuple(made);
  if (PyTuple_CheckExact(tree.ptr())) return tuple;
  const nb::object type = nb::borrow(nb::handle(tree.type()));
  return type.attr("_make")(tuple);
}

SavedContainers::SavedContainers(const std::vector<nb::object>& containers) {
  saved_.reserve(containers.size());
  for (const nb::object& container : containers) {
    saved_.emplace_back(container, nb::steal(is_list(container) ? PySequence_List(container.ptr())
                                                                : PyDict_Copy(container.ptr())));
  }
}

void SavedContainers::restore() const {
  for (const auto& [container, items] : saved_) assign_items(container, items);
}

void assign_items(const nb::object& container, const nb::object& items) {
  if (is_list(container)) {
    if (PyList_SetSlice(container.ptr(), 0, PY_SSIZE_T_MAX, items.ptr()) != 0) {
      throw nb::python_error();
    }
    return;
  }
  PyDict_Clear(container.ptr());
  if (PyDict_Update(container.ptr(), items.ptr()) != 0) throw nb::python_error();
}

}  // namespace holdfast::python
