#pragma once

#include <string>
#include <vector>

#include "python/src/casters.h"

namespace holdfast::python {

// What a compiled function takes and returns: arrays in nested lists, tuples and dicts, and
// constants beside them: numbers, strings, bytes, dtypes and None.
class Tree {
 public:
  // Where an array stands that a list or dict has, so that another can be put there. Else, in a
  // tuple or by itself, the array object alone can be given other elements.
  struct Leaf {
    nb::object array;
    nb::object container;  // null: none that can be changed
    nb::object key;        // in the container
  };

  // Adds what is in the object. TypeError for anything that is no such tree; `what` names it.
  void add(nb::handle object, const std::string& what);

  const std::vector<Leaf>& leaves() const noexcept { return leaves_; }
  // Lists and dicts, each once for each place where it stands.
  const std::vector<nb::object>& containers() const noexcept { return containers_; }
  // Structure and constants, so that trees with equal forms differ in their arrays alone.
  const std::string& form() const noexcept { return form_; }
  // Types of named tuples, which the form has by address: to be kept for as long as it is.
  const std::vector<nb::object>& types() const noexcept { return types_; }
  std::vector<Array> arrays() const;

 private:
  void add_item(nb::handle object, const nb::object& container, const nb::object& key);
  void add_constant(nb::handle object);
  void add_word(char kind, uint64_t word);
  void add_text(char kind, const char* data, size_t size);
  [[noreturn]] void refuse(nb::handle object) const;

  std::string what_;
  // Where it is: a dict's key, or null and a position.
  struct Step {
    nb::object key;
    size_t position;
  };
  std::vector<Step> path_;
  std::vector<Leaf> leaves_;
  std::vector<nb::object> containers_;
  std::vector<nb::object> types_;
  std::string form_;
};

// The same tree in new lists, tuples and dicts, with these arrays from `next` on in new objects.
nb::object rebuilt(nb::handle tree, std::span<const Array> arrays, size_t& next);

// What lists and dicts contain, to be put back.
class SavedContainers {
 public:
  explicit SavedContainers(const std::vector<nb::object>& containers);
  void restore() const;

 private:
  std::vector<std::pair<nb::object, nb::object>> saved_;  // the container and a shallow copy
};

// Gives a list or dict the items of another.
void assign_items(const nb::object& container, const nb::object& items);

}  // namespace holdfast::python
