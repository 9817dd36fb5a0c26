// rankcast.checksum
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/builtin.h"
#include "kernels/check.h"
#include "kernels/strided.h"

namespace rankcast::kernels {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");

constexpr std::size_t kLanes = 4;
constexpr std::size_t kGroupBytes = kLanes * sizeof(std::uint64_t);
constexpr std::size_t kBlockBytes = 4096;
static_assert(kBlockBytes % kGroupBytes == 0);

std::uint64_t mix(std::uint64_t h, std::uint64_t word) {
  const std::uint64_t x = h ^ word;
  return (x ^ (x >> 32)) * 0x9E3779B97F4A7C15u;
}

class Checksum {
 public:
  /// Every call but the last must give a multiple of kGroupBytes.
  void add(const std::byte* bytes, std::size_t count) {
    total_ += count;
    Lanes lanes = lanes_;  // a copy, which stays in registers
    for (; count >= kGroupBytes; count -= kGroupBytes, bytes += kGroupBytes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) add_word(bytes, lane, lanes);
    }
    if (count != 0) {
      std::array<std::byte, kGroupBytes> padded{};
      std::memcpy(padded.data(), bytes, count);
      const std::size_t words = (count + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
      for (std::size_t lane = 0; lane < words; ++lane) add_word(padded.data(), lane, lanes);
    }
    lanes_ = lanes;
  }

  std::int64_t result() const {
    std::uint64_t s = total_;
    for (const std::uint64_t h : lanes_) s = mix(s, h);
    return static_cast<std::int64_t>(s ^ (s >> 32));
  }

 private:
  using Lanes = std::array<std::uint64_t, kLanes>;

  static void add_word(const std::byte* group, std::size_t lane, Lanes& lanes) {
    std::uint64_t word;
    std::memcpy(&word, group + lane * sizeof(word), sizeof(word));
    lanes[lane] = mix(lanes[lane], word);
  }

  Lanes lanes_{1, 2, 3, 4};
  std::uint64_t total_ = 0;
};

template <class Word>
void add_strided(const DLTensor& tensor, Checksum& checksum) {
  constexpr std::int64_t kBlock = kBlockBytes / sizeof(Word);
  Word block[kBlockBytes / sizeof(Word)];
  Cursor cursor(tensor);
  const std::int64_t total = element_count(tensor);
  for (std::int64_t first = 0; first < total; first += kBlock) {
    const std::int64_t count = std::min(kBlock, total - first);
    gather(static_cast<const Word*>(tensor.data), cursor, count, block);
    checksum.add(reinterpret_cast<const std::byte*>(block),
                 static_cast<std::size_t>(count) * sizeof(Word));
  }
}

std::int64_t checksum_of(const DLTensor& tensor) {
  Checksum checksum;
  const std::int64_t bytes = size_bytes(tensor.dtype);
  if (is_dense(tensor)) {
    checksum.add(static_cast<const std::byte*>(tensor.data),
                 static_cast<std::size_t>(element_count(tensor) * bytes));
  } else {
    with_word(bytes, [&](auto word) { add_strided<decltype(word)>(tensor, checksum); });
  }
  return checksum.result();
}

}  // namespace

int check_checksum(const rankcast_call* call, rankcast_failure* failure) {
  if (call->tensor_count < 2) {
    return fail(failure, -1, "%u tensor(s) given, but the kernel takes 2 or more: in..., out",
                call->tensor_count);
  }
  if (require_scalars(*call, 0, failure) != RANKCAST_OK) return RANKCAST_FAILED;
  const std::uint32_t inputs = call->tensor_count - 1;
  for (std::uint32_t input = 0; input < inputs; ++input) {
    if (require_known_dtype(*call, input, failure) != RANKCAST_OK) return RANKCAST_FAILED;
    if (require_readable(*call, input, failure) != RANKCAST_OK) return RANKCAST_FAILED;
  }
  const DLTensor& out = call->tensors[inputs];
  const auto at = static_cast<std::int32_t>(inputs);
  if (dtype_of(out.dtype) != DType::i64) {
    return fail(failure, at, "argument %u: dtype %s, but the checksums are i64", inputs,
                dtype_text(out.dtype).data());
  }
  if (out.ndim != 1 || out.shape[0] != static_cast<std::int64_t>(inputs)) {
    return fail(failure, at, "argument %u: shape %s, but %u checksum(s) need [%u]", inputs,
                shape_text(out).data(), inputs, inputs);
  }
  return require_writable(*call, inputs, failure);
}

int run_checksum(const rankcast_kernel_context* /*context*/, void* /*state*/,
                 const rankcast_call* call, rankcast_failure* /*failure*/) {
  const std::uint32_t inputs = call->tensor_count - 1;
  const DLTensor& out = call->tensors[inputs];
  auto* results = static_cast<std::int64_t*>(out.data);
  for (std::uint32_t input = 0; input < inputs; ++input) {
    results[static_cast<std::int64_t>(input) * out.strides[0]] = checksum_of(call->tensors[input]);
  }
  return RANKCAST_OK;
}

}  // namespace rankcast::kernels
