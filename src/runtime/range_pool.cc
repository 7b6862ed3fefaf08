#include "holdfast/runtime/range_pool.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace holdfast::runtime {

RangeNode* RangePool::new_node() {
  if (spare_.empty()) return &nodes_.emplace_back();
  RangeNode* node = spare_.back();
  spare_.pop_back();
  return node;
}

void RangePool::delete_node(RangeNode* node) {
  node->block = nullptr;
  node->left = node->right = nullptr;
  spare_.push_back(node);
}

void RangePool::link(RangeNode& node) {
  const size_t c = class_within(node.range.length);
  node.state = RangeNode::State::free;
  node.class_previous = nullptr;
  node.class_next = free_[c];
  if (free_[c] != nullptr) free_[c]->class_previous = &node;
  free_[c] = &node;
  nonempty_[c / 64] |= uint64_t{1} << (c % 64);
  free_bytes_ += node.range.length;
}

void RangePool::unlink(RangeNode& node) {
  const size_t c = class_within(node.range.length);
  if (node.class_previous != nullptr) {
    node.class_previous->class_next = node.class_next;
  } else {
    free_[c] = node.class_next;
    if (free_[c] == nullptr) nonempty_[c / 64] &= ~(uint64_t{1} << (c % 64));
  }
  if (node.class_next != nullptr) node.class_next->class_previous = node.class_previous;
  node.class_previous = node.class_next = nullptr;
  free_bytes_ -= node.range.length;
}

RangeNode* RangePool::adopt(Block& block) {
  RangeNode* node = new_node();
  node->state = RangeNode::State::live;
  node->block = &block;
  node->range = {{}, block.buffer->size()};
  block.first = node;
  return node;
}

RangeNode* RangePool::add_block(Block& block) {
  RangeNode* node = adopt(block);
  link(*node);
  return node;
}

RangeNode* RangePool::take(Bytes bytes) {
  const size_t wanted = class_that_holds(bytes);
  size_t found = kSizeClasses;
  for (size_t word = wanted / 64; word < nonempty_.size(); ++word) {
    uint64_t bits = nonempty_[word];
    if (word == wanted / 64) bits &= ~uint64_t{0} << (wanted % 64);
    if (bits == 0) continue;
    found = word * 64 + static_cast<size_t>(std::countr_zero(bits));
    break;
  }
  if (found == kSizeClasses) return nullptr;
  RangeNode& node = *free_[found];
  unlink(node);
  node.state = RangeNode::State::live;
  const Bytes rest = node.range.length - bytes;
  if (rest >= kSmallestClass) {
    RangeNode* tail = new_node();
    tail->block = node.block;
    tail->range = {node.range.offset + bytes, rest};
    tail->left = &node;
    tail->right = node.right;
    if (node.right != nullptr) node.right->left = tail;
    node.right = tail;
    node.range.length = bytes;
    link(*tail);
  }
  return &node;
}

void RangePool::unlink_neighbour(RangeNode& node) {
  if (node.left != nullptr) node.left->right = node.right;
  if (node.right != nullptr) node.right->left = node.left;
  if (node.block->first == &node) node.block->first = node.right;
}

RangeNode* RangePool::give_back(RangeNode& node) {
  RangeNode* whole = &node;
  if (RangeNode* left = node.left; left != nullptr && left->state == RangeNode::State::free) {
    unlink(*left);
    left->range.length += node.range.length;
    unlink_neighbour(node);
    delete_node(&node);
    whole = left;
  }
  if (RangeNode* right = whole->right; right != nullptr && right->state == RangeNode::State::free) {
    unlink(*right);
    whole->range.length += right->range.length;
    unlink_neighbour(*right);
    delete_node(right);
  }
  link(*whole);
  return whole;
}

bool RangePool::is_whole_and_free(const Block& block) noexcept {
  return block.first != nullptr && block.first->right == nullptr &&
         block.first->state == RangeNode::State::free;
}

void RangePool::remove_block(Block& block) {
  RangeNode* only = block.first;
  assert(only != nullptr && only->right == nullptr);
  if (only->state == RangeNode::State::free) unlink(*only);
  block.first = nullptr;
  delete_node(only);
}

}  // namespace holdfast::runtime
