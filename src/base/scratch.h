// Arrays of plain data that are cleared and filled again, submit after submit, without allocating
// once they have grown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "base/atomic.h"

namespace rankcast::base {

/// How often a Scratch of this thread had to allocate: what a path that must not allocate is
/// measured by.
inline thread_local std::uint64_t scratch_growths = 0;

/// A growing array of trivially copyable T, aligned to a cache line. New elements are
/// uninitialised. Keeps its memory when cleared. Pointers are good until the next extend. One
/// thread at a time. Throws std::bad_alloc only.
template <class T>
class Scratch {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kCacheLine);

 public:
  Scratch() noexcept = default;
  Scratch(Scratch&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Scratch& operator=(Scratch&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { ::operator delete(static_cast<void*>(data_), std::align_val_t{kCacheLine}); }

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  T& operator[](std::size_t index) noexcept { return data_[index]; }
  const T& operator[](std::size_t index) const noexcept { return data_[index]; }
  T& back() noexcept { return data_[size_ - 1]; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + size_; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + size_; }
  std::span<const T> span() const noexcept { return {data_, size_}; }

  void clear() noexcept { size_ = 0; }
  /// Forgets all but the first `size` elements.
  void shrink(std::size_t size) noexcept { size_ = size; }

  /// `count` further elements, uninitialised.
  T* extend(std::size_t count) {
    if (capacity_ - size_ < count) [[unlikely]] {
      grow(count);
    }
    T* first = data_ + size_;
    size_ += count;
    return first;
  }

  void push(const T& value) { *extend(1) = value; }

 private:
  void grow(std::size_t count) {
    std::size_t capacity = capacity_ == 0 ? 16 : capacity_ * 2;
    while (capacity < size_ + count) capacity *= 2;
    T* data = static_cast<T*>(::operator new(capacity * sizeof(T), std::align_val_t{kCacheLine}));
    if (size_ != 0) {
      std::memcpy(static_cast<void*>(data), static_cast<const void*>(data_), size_ * sizeof(T));
    }
    ::operator delete(static_cast<void*>(data_), std::align_val_t{kCacheLine});
    data_ = data;
    capacity_ = capacity;
    ++scratch_growths;
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace rankcast::base
