#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "holdfast/array.h"

namespace holdfast {

// Says where the arrays of a type are, so that a compiled function can take and return it. Arrays,
// vectors, std::arrays, pairs and tuples of trees are trees. For your own struct, specialize it:
//
//   struct Layer { hf::Array weight, bias; };
//   template <>
//   struct hf::ArrayTree<Layer> {
//     static void visit(auto& layer, auto&& visit) { visit(layer.weight); visit(layer.bias); }
//   };
//
// visit() is called with a Layer& or a const Layer&. It passes every member that is a tree, always
// in the same order, and no other member. A tree is copied, and its copy's arrays are assigned.
template <typename T>
struct ArrayTree;

namespace array {

template <typename T>
concept IsArrayTree = std::same_as<T, Array> || requires { sizeof(ArrayTree<T>); };

// Calls `leaf(array)` for each array, and `length(n)` before the elements of each vector.
template <typename Tree, typename Leaf, typename Length>
void visit_tree(Tree& tree, const Leaf& leaf, const Length& length) {
  using Plain = std::remove_const_t<Tree>;
  static_assert(IsArrayTree<Plain>,
                "a compiled function takes and returns arrays and trees of arrays: specialize "
                "holdfast::ArrayTree for your type, and capture what is no array");
  if constexpr (std::same_as<Plain, Array>) {
    leaf(tree);
  } else {
    if constexpr (requires { tree.size(); }) length(tree.size());
    ArrayTree<Plain>::visit(tree, [&](auto& part) { visit_tree(part, leaf, length); });
  }
}

}  // namespace array

template <typename T>
struct ArrayTree<std::vector<T>> {
  static void visit(auto& trees, const auto& visit) {
    for (auto& tree : trees) visit(tree);
  }
};
template <typename T, size_t N>
struct ArrayTree<std::array<T, N>> {
  static void visit(auto& trees, const auto& visit) {
    for (auto& tree : trees) visit(tree);
  }
};
template <typename A, typename B>
struct ArrayTree<std::pair<A, B>> {
  static void visit(auto& pair, const auto& visit) {
    visit(pair.first);
    visit(pair.second);
  }
};
template <typename... T>
struct ArrayTree<std::tuple<T...>> {
  static void visit(auto& tuple, const auto& visit) {
    std::apply([&](auto&... tree) { (visit(tree), ...); }, tuple);
  }
};

}  // namespace holdfast
