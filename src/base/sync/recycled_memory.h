#pragma once

#include <cstddef>
#include <new>
#include <utility>

namespace holdfast {

// Memory for objects of one type that are made and dropped all the time: the blocks that a thread
// gave back last are used again before the heap is asked. Objects may be dropped by another thread
// than made them, and after their thread's end. With a sanitizer, which is to see every use after
// the end, it is the heap alone.
//
//   void* Node::operator new(size_t bytes) { return RecycledMemory<Node>::take(bytes); }
//   void Node::operator delete(void* block) noexcept { RecycledMemory<Node>::give(block); }
//
// Both in one source of the library, since tests may be compiled without the sanitizer.
template <typename T>
class RecycledMemory {
 public:
  // Of sizeof(T) bytes. Raises std::bad_alloc.
  static void* take(size_t bytes) {
    Spare& own = spare();
    if (own.newest == nullptr) return ::operator new(bytes);
    --own.count;
    return std::exchange(own.newest, own.newest->next);
  }
  static void give(void* block) noexcept {
    static_assert(sizeof(T) >= sizeof(Block));
    Spare& own = spare();
    if (own.count == kMost || own.ended || !kRecycles) {
      ::operator delete(block);
      return;
    }
    if (own.count == 0) clean_at_end();
    own.newest = new (block) Block{own.newest};
    ++own.count;
  }

 private:
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr bool kRecycles = false;
#else
  static constexpr bool kRecycles = true;
#endif
  // A few lists of a stream's results. No more, since a thread that only drops what others made
  // keeps as much for nothing.
  static constexpr size_t kMost = (size_t{64} << 10) / sizeof(T);

  struct Block {
    Block* next;
  };
  // Has no destructor: objects go while the thread's other locals do, too.
  struct Spare {
    Block* newest;
    size_t count;
    bool ended;
  };
  // The calling thread's.
  static Spare& spare() {
    static constinit thread_local Spare spare{};
    return spare;
  }
  static void clean_at_end() {
    struct Cleaner {
      ~Cleaner() {
        Spare& own = spare();
        own.ended = true;
        while (own.newest != nullptr) {
          ::operator delete(std::exchange(own.newest, own.newest->next));
        }
        own.count = 0;
      }
    };
    thread_local Cleaner cleaner;
    (void)cleaner;
  }
};

}  // namespace holdfast
