#include "holdfast/testing/stub_cuda/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "holdfast/base/rounding.h"

namespace holdfast::stub_cuda {

namespace {
constexpr size_t kPage = 4096;
constexpr size_t kArenaBytes = size_t{16} << 30;
// Filling all of a large allocation would make all its pages real.
constexpr size_t kFilledBytes = size_t{1} << 20;
constexpr int kFilling = 0xcb;
}  // namespace

std::shared_ptr<Arena> Arena::reserve(size_t bytes) {
  void* const begin =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) return nullptr;
  return std::shared_ptr<Arena>(new Arena(static_cast<std::byte*>(begin), bytes));
}

Arena::~Arena() { munmap(begin_, bytes_); }

std::byte* Arena::cut(size_t bytes) {
  if (bytes > bytes_ - used_) return nullptr;
  std::byte* const result = begin_ + used_;
  used_ += bytes;
  return result;
}

Mapping Mapping::make(std::shared_ptr<Arena>& current, size_t bytes) {
  const size_t pages = round_up(bytes, kPage);
  const size_t guarded = pages + kPage;
  std::byte* begin = current ? current->cut(guarded) : nullptr;
  if (begin == nullptr) {
    std::shared_ptr<Arena> fresh = Arena::reserve(std::max(kArenaBytes, guarded));
    if (!fresh) return {};
    current = std::move(fresh);
    begin = current->cut(guarded);
  }
  if (mprotect(begin, pages, PROT_READ | PROT_WRITE) != 0) return {};
  std::memset(begin, kFilling, std::min(pages, kFilledBytes));
  Mapping result;
  result.arena_ = current;
  result.begin_ = begin;
  result.bytes_ = pages;
  return result;
}

Mapping::Mapping(Mapping&& other) noexcept
    : arena_(std::move(other.arena_)),
      begin_(std::exchange(other.begin_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(arena_, other.arena_);
  std::swap(begin_, other.begin_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (begin_ == nullptr) return;
  madvise(begin_, bytes_, MADV_DONTNEED);
  mprotect(begin_, bytes_, PROT_NONE);
}

}  // namespace holdfast::stub_cuda
