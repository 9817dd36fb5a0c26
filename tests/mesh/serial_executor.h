// What the bytes of all buffers are when everything is done one thing after the other, in the order
// of submission: plain vectors and plain loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mesh/random_program.h"

namespace rankcast::test {

using Bytes = std::vector<std::byte>;

/// Small whole numbers, whose sums are exact.
Bytes pattern_bytes(DType dtype, std::int64_t count, std::uint64_t pattern);

/// What a buffer holds once it is renewed.
Bytes renewed_bytes(const std::vector<BufferSpec>& specs, std::size_t buffer,
                    std::uint64_t pattern);

class SerialExecutor {
 public:
  explicit SerialExecutor(const std::vector<BufferSpec>& specs);

  const Bytes& bytes(std::size_t buffer) const { return buffers_[buffer]; }
  void run(const ProgramTask& task);
  /// Row-major, without gaps.
  void upload(const HostLayout& view, std::span<const std::byte> bytes);
  Bytes download(const HostLayout& view) const;
  /// True if a sum of floating-point numbers of this buffer may soon be inexact.
  bool has_large_numbers(std::size_t buffer) const;

 private:
  template <class T>
  std::vector<T> load(const HostLayout& view) const;
  template <class T>
  void store(const HostLayout& view, const std::vector<T>& values);
  template <class T>
  void run_as(const ProgramTask& task);

  std::vector<BufferSpec> specs_;
  std::vector<Bytes> buffers_;
};

}  // namespace rankcast::test
