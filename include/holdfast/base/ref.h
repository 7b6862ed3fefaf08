#pragma once

#include <atomic>
#include <cassert>
#include <cstdint>
#include <type_traits>
#include <utility>

#pragma GCC visibility push(default)

namespace holdfast {

// Base of objects that are shared by counting. Born with a count of zero; the first Ref takes it
// to one and the last one deletes the object, on whichever thread drops it.
class RefCounted {
 public:
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void retain() const noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  void release() const noexcept {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy();
  }
  // For reports only: the answer may be stale when it arrives.
  uint32_t ref_count() const noexcept { return count_.load(std::memory_order_relaxed); }

 protected:
  RefCounted() = default;
  virtual ~RefCounted() = default;
  // The last Ref is gone. An override may take a new Ref instead of deleting; it is called again
  // when that Ref goes.
  virtual void destroy() const noexcept { delete this; }
  // Counts a first Ref, made by Ref::adopt, before anybody else knows the object: a plain store.
  void count_first_ref() const noexcept { count_.store(1, std::memory_order_relaxed); }

 private:
  mutable std::atomic<uint32_t> count_{0};
};

// An owning reference to anything with retain() and release(). Distinct Refs to one object may be
// used from distinct threads; one Ref may not be written by two threads at once.
// Empty after a move; dereferencing an empty Ref is a programming error.
template <typename T>
class Ref {
 public:
  Ref() noexcept = default;
  Ref(std::nullptr_t) noexcept {}
  explicit Ref(T* object) noexcept : object_(object) {
    if (object_) object_->retain();
  }
  Ref(const Ref& other) noexcept : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <typename U>
    requires std::is_convertible_v<U*, T*>
  Ref(const Ref<U>& other) noexcept : Ref(other.get()) {}
  template <typename U>
    requires std::is_convertible_v<U*, T*>
  Ref(Ref<U>&& other) noexcept : object_(other.detach()) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_) object_->release();
  }

  T* get() const noexcept { return object_; }
  T& operator*() const noexcept {
    assert(object_ != nullptr);
    return *object_;
  }
  T* operator->() const noexcept {
    assert(object_ != nullptr);
    return object_;
  }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  void reset() noexcept { Ref().swap(*this); }
  void swap(Ref& other) noexcept { std::swap(object_, other.object_); }

  // The opposite of detach(): takes over a count that the caller owns.
  static Ref adopt(T* object) noexcept {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  // Gives the reference up without releasing it; the caller owns one count.
  [[nodiscard]] T* detach() noexcept { return std::exchange(object_, nullptr); }

  friend bool operator==(const Ref& a, const Ref& b) noexcept { return a.object_ == b.object_; }

 private:
  T* object_ = nullptr;
};

// A Ref to a RefCounted whose type is not defined in the header. Only code that sees the definition
// of T can make one or dereference it. Copied, moved and destroyed like a Ref.
template <typename T>
class HiddenRef {
 public:
  HiddenRef() noexcept = default;
  HiddenRef(Ref<T> object) noexcept : object_(std::move(object)) {}

  T* get() const noexcept { return static_cast<T*>(object_.get()); }
  T& operator*() const noexcept { return static_cast<T&>(*object_); }
  T* operator->() const noexcept { return &**this; }
  Ref<T> ref() const noexcept { return Ref<T>(get()); }
  explicit operator bool() const noexcept { return static_cast<bool>(object_); }
  friend bool operator==(const HiddenRef&, const HiddenRef&) noexcept = default;

 private:
  Ref<RefCounted> object_;
};

template <typename T, typename... Args>
Ref<T> make_ref(Args&&... args) {
  return Ref<T>(new T(std::forward<Args>(args)...));
}

}  // namespace holdfast

#pragma GCC visibility pop
