// rankcast.sum
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "kernels/builtin.h"
#include "kernels/check.h"
#include "kernels/element.h"
#include "kernels/strided.h"

namespace rankcast::kernels {
namespace {

// How an element is stored, and in what its sum is kept. Signed integers are added as unsigned
// ones: the bits are the same, and wrapping around is defined.

template <class T>
struct Plain {
  using Storage = T;
  using Accumulator = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};

struct F16 {
  using Storage = std::uint16_t;
  using Accumulator = float;
  static float load(std::uint16_t value) { return f16_to_f32(value); }
  static std::uint16_t store(float value) { return f32_to_f16(value); }
};

struct Bf16 {
  using Storage = std::uint16_t;
  using Accumulator = float;
  static float load(std::uint16_t value) { return bf16_to_f32(value); }
  static std::uint16_t store(float value) { return f32_to_bf16(value); }
};

/// Sums of so many elements stay in the nearest cache while a long piece of each input is added:
/// reading many inputs a little at a time would defeat the processor's prefetching.
constexpr std::int64_t kBlock = 1024;

template <class Element>
class Sum {
 public:
  explicit Sum(const rankcast_call& call)
      : inputs_(call.tensors),
        input_count_(call.tensor_count - 1),
        out_(call.tensors[call.tensor_count - 1]),
        element_count_(element_count(out_)) {}

  void run_dense() const {
    std::int64_t first = 0;
    if constexpr (kInRegisters) {
      if (element_count_ < 3 * kPairElements) {
        for (; first + kPairElements <= element_count_; first += kPairElements) add_pair(first);
      }
    }
    for (; first < element_count_; first += kBlock) {
      add_block(first, std::min(kBlock, element_count_ - first));
    }
  }

  void run_strided() const {
    Cursor out_cursor(out_);
    Accumulator sums[kBlock];
    Storage gathered[kBlock];
    for (std::int64_t first = 0; first < element_count_; first += kBlock) {
      const std::int64_t count = std::min(kBlock, element_count_ - first);
      for (std::uint32_t input = 0; input < input_count_; ++input) {
        Cursor cursor(inputs_[input]);
        cursor.seek(first);
        gather(data_of(input), cursor, count, gathered);
        if (input == 0) {
          load(sums, gathered, count);
        } else {
          add(sums, gathered, count);
        }
      }
      store(gathered, sums, count);
      scatter(static_cast<Storage*>(out_.data), out_cursor, count, gathered);
    }
  }

 private:
  using Storage = typename Element::Storage;
  using Accumulator = typename Element::Accumulator;

  // For small tensors. A plain array of sums is not always kept in registers, a vector is.
  typedef Accumulator Vector __attribute__((vector_size(32)));
  static constexpr bool kInRegisters = std::is_same_v<Storage, Accumulator>;
  static constexpr std::int64_t kVectorElements = sizeof(Vector) / sizeof(Accumulator);
  static constexpr std::int64_t kPairElements = 2 * kVectorElements;

  const Storage* data_of(std::uint32_t input) const {
    return static_cast<const Storage*>(inputs_[input].data);
  }

  static void load(Accumulator* sums, const Storage* in, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) sums[i] = Element::load(in[i]);
  }
  static void add(Accumulator* sums, const Storage* in, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      sums[i] = static_cast<Accumulator>(sums[i] + Element::load(in[i]));
    }
  }
  static void add_four(Accumulator* sums, const Storage* a, const Storage* b, const Storage* c,
                       const Storage* d, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      sums[i] = static_cast<Accumulator>(sums[i] + Element::load(a[i]) + Element::load(b[i]) +
                                         Element::load(c[i]) + Element::load(d[i]));
    }
  }
  static void store(Storage* out, const Accumulator* sums, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = Element::store(sums[i]);
  }

  /// The sums of kPairElements elements, in two vector registers while all inputs are added.
  void add_pair(std::int64_t first) const {
    Vector low = load_vector(data_of(0) + first);
    Vector high = load_vector(data_of(0) + first + kVectorElements);
    for (std::uint32_t input = 1; input < input_count_; ++input) {
      low += load_vector(data_of(input) + first);
      high += load_vector(data_of(input) + first + kVectorElements);
    }
    Storage* out = static_cast<Storage*>(out_.data) + first;
    std::memcpy(out, &low, sizeof(low));
    std::memcpy(out + kVectorElements, &high, sizeof(high));
  }

  static Vector load_vector(const Storage* from) {
    Vector vector;
    std::memcpy(&vector, from, sizeof(vector));
    return vector;
  }

  void add_block(std::int64_t first, std::int64_t count) const {
    Accumulator sums[kBlock];
    load(sums, data_of(0) + first, count);
    std::uint32_t input = 1;
    for (; input + 4 <= input_count_; input += 4) {
      add_four(sums, data_of(input) + first, data_of(input + 1) + first, data_of(input + 2) + first,
               data_of(input + 3) + first, count);
    }
    for (; input < input_count_; ++input) add(sums, data_of(input) + first, count);
    store(static_cast<Storage*>(out_.data) + first, sums, count);
  }

  const DLTensor* inputs_;  // borrowed from the call
  std::uint32_t input_count_;
  const DLTensor& out_;  // borrowed from the call
  std::int64_t element_count_;
};

bool all_dense(const rankcast_call& call) {
  const DLTensor* last = nullptr;
  for (const DLTensor& tensor : std::span(call.tensors, call.tensor_count)) {
    // Arguments of one layout often share its arrays; then there is nothing new to look at.
    const bool known = last != nullptr && tensor.shape == last->shape &&
                       tensor.strides == last->strides && tensor.ndim == last->ndim;
    if (!known && !is_dense(tensor)) return false;
    last = &tensor;
  }
  return true;
}

template <class Element>
int run(const rankcast_call& call, bool dense) {
  const Sum<Element> sum(call);
  dense ? sum.run_dense() : sum.run_strided();
  return RANKCAST_OK;
}

}  // namespace

int check_sum(const rankcast_call* call, rankcast_failure* failure) {
  if (call->tensor_count < 2) {
    return fail(failure, -1, "%u tensor(s) given, but the kernel takes 2 or more: in..., out",
                call->tensor_count);
  }
  if (require_scalars(*call, 0, failure) != RANKCAST_OK) return RANKCAST_FAILED;
  if (require_known_dtype(*call, 0, failure) != RANKCAST_OK) return RANKCAST_FAILED;
  if (dtype_of(call->tensors[0].dtype) == DType::boolean) {
    return fail(failure, 0, "argument 0: dtype bool, which cannot be added");
  }
  const std::uint32_t out = call->tensor_count - 1;
  for (std::uint32_t input = 0; input < out; ++input) {
    if (require_readable(*call, input, failure) != RANKCAST_OK) return RANKCAST_FAILED;
    if (require_same(*call, input, 0, failure) != RANKCAST_OK) return RANKCAST_FAILED;
  }
  if (require_same(*call, out, 0, failure) != RANKCAST_OK) return RANKCAST_FAILED;
  return require_writable(*call, out, failure);
}

int run_sum(const rankcast_kernel_context* /*context*/, void* /*state*/, const rankcast_call* call,
            rankcast_failure* failure) {
  const bool dense = all_dense(*call);
  const DLDataType dtype = call->tensors[0].dtype;
  switch (dtype_of(dtype).value_or(DType::boolean)) {
    case DType::f64:
      return run<Plain<double>>(*call, dense);
    case DType::f32:
      return run<Plain<float>>(*call, dense);
    case DType::f16:
      return run<F16>(*call, dense);
    case DType::bf16:
      return run<Bf16>(*call, dense);
    case DType::i64:
      return run<Plain<std::uint64_t>>(*call, dense);
    case DType::i32:
      return run<Plain<std::uint32_t>>(*call, dense);
    case DType::i16:
      return run<Plain<std::uint16_t>>(*call, dense);
    case DType::i8:
    case DType::u8:
      return run<Plain<std::uint8_t>>(*call, dense);
    case DType::boolean:
      break;
  }
  return fail(failure, 0, "argument 0: dtype %s, which cannot be added", dtype_text(dtype).data());
}

}  // namespace rankcast::kernels
