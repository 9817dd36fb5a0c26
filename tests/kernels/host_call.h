// Tensors in host memory and calls of the built-in kernels on them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rank/kernel_library.h"
#include "rankcast/dtype.h"
#include "rankcast/kernel_abi.h"

namespace rankcast::kernels {

inline constexpr DType kAllDTypes[] = {DType::f64, DType::f32,    DType::f16, DType::bf16,
                                       DType::i64, DType::i32,    DType::i16, DType::i8,
                                       DType::u8,  DType::boolean};

inline DLDataType dl_dtype(DType dtype) {
  const auto type = [](DLDataTypeCode code, int bits) {
    return DLDataType{.code = static_cast<std::uint8_t>(code),
                      .bits = static_cast<std::uint8_t>(bits),
                      .lanes = 1};
  };
  switch (dtype) {
    case DType::f64:
      return type(kDLFloat, 64);
    case DType::f32:
      return type(kDLFloat, 32);
    case DType::f16:
      return type(kDLFloat, 16);
    case DType::bf16:
      return type(kDLBfloat, 16);
    case DType::i64:
      return type(kDLInt, 64);
    case DType::i32:
      return type(kDLInt, 32);
    case DType::i16:
      return type(kDLInt, 16);
    case DType::i8:
      return type(kDLInt, 8);
    case DType::u8:
      return type(kDLUInt, 8);
    case DType::boolean:
      return type(kDLBool, 8);
  }
  throw std::invalid_argument("no such dtype");
}

/// A tensor with memory of its own. Bytes that belong to no element hold kGap, and must keep it.
class HostTensor {
 public:
  static constexpr std::uint8_t kGap = 0xA5;

  /// Strides in elements, positive and free of overlap. `lead` elements lie before the first one.
  HostTensor(DType dtype, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides,
             std::size_t lead = 0)
      : dtype_(dtype), shape_(std::move(shape)), strides_(std::move(strides)), lead_(lead) {
    offsets_ = {0};
    for (std::size_t dim = 0; dim < shape_.size(); ++dim) {
      std::vector<std::size_t> longer;
      for (const std::size_t offset : offsets_) {
        for (std::int64_t i = 0; i < shape_[dim]; ++i) {
          longer.push_back(offset + static_cast<std::size_t>(i * strides_[dim]));
        }
      }
      offsets_ = std::move(longer);
    }
    const std::size_t extent = *std::max_element(offsets_.begin(), offsets_.end()) + 1;
    storage_.resize((lead_ + extent + 8) * element_bytes(), kGap);
  }

  static HostTensor dense(DType dtype, std::vector<std::int64_t> shape, std::size_t lead = 0) {
    std::vector<std::int64_t> strides(shape.size(), 1);
    for (std::size_t dim = shape.size() - 1; dim > 0; --dim) {
      strides[dim - 1] = strides[dim] * shape[dim];
    }
    return HostTensor(dtype, std::move(shape), std::move(strides), lead);
  }

  std::size_t size() const { return offsets_.size(); }
  DType dtype() const { return dtype_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }

  /// The bits of an element by its row-major number.
  std::uint64_t bits(std::size_t i) const {
    std::uint64_t bits = 0;
    std::memcpy(&bits, element(i), element_bytes());
    return bits;
  }
  void set_bits(std::size_t i, std::uint64_t bits) {
    std::memcpy(const_cast<std::uint8_t*>(element(i)), &bits, element_bytes());
  }

  /// Fills the elements with bits that depend on `seed` alone (bool: 0 or 1).
  void randomize(std::uint64_t seed) {
    for (std::size_t i = 0; i < size(); ++i) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      const std::uint64_t bits = seed ^ (seed >> 33);
      set_bits(i, dtype_ == DType::boolean ? bits & 1u : bits);
    }
  }

  /// The elements' bytes in row-major order.
  std::vector<std::uint8_t> row_major() const {
    std::vector<std::uint8_t> bytes;
    for (std::size_t i = 0; i < size(); ++i) {
      bytes.insert(bytes.end(), element(i), element(i) + element_bytes());
    }
    return bytes;
  }

  /// Whether every byte that belongs to no element still holds kGap.
  bool gaps_are_untouched() const {
    std::vector<std::uint8_t> copy = storage_;
    for (const std::size_t offset : offsets_) {
      std::fill_n(copy.begin() + static_cast<std::ptrdiff_t>((lead_ + offset) * element_bytes()),
                  element_bytes(), kGap);
    }
    return std::all_of(copy.begin(), copy.end(), [](std::uint8_t byte) { return byte == kGap; });
  }

  DLTensor view() {
    return {.data = storage_.data() + lead_ * element_bytes(),
            .device = {.device_type = kDLCPU, .device_id = 0},
            .ndim = static_cast<std::int32_t>(shape_.size()),
            .dtype = dl_dtype(dtype_),
            .shape = shape_.data(),
            .strides = strides_.data(),
            .byte_offset = 0};
  }

 private:
  std::size_t element_bytes() const { return size_bytes(dtype_); }
  const std::uint8_t* element(std::size_t i) const {
    return storage_.data() + (lead_ + offsets_[i]) * element_bytes();
  }

  DType dtype_;
  std::vector<std::int64_t> shape_;
  std::vector<std::int64_t> strides_;
  std::size_t lead_;
  std::vector<std::size_t> offsets_;  // of the elements in row-major order, in elements
  std::vector<std::uint8_t> storage_;
};

/// The library that is tested, loaded once.
inline const rank::KernelLibrary& builtin_library() {
  static const rank::KernelLibrary library = [] {
    auto opened = rank::KernelLibrary::open(RANKCAST_TEST_KERNELS);
    if (!opened) throw std::runtime_error(opened.error().text);
    return std::move(*opened);
  }();
  return library;
}

struct Outcome {
  int status = RANKCAST_OK;
  int argument = -1;
  std::string text;

  bool ok() const { return status == RANKCAST_OK; }
};

/// One call of one kernel. The tensors must outlive it.
class HostCall {
 public:
  explicit HostCall(std::string_view name) {
    for (const rankcast_kernel& kernel : builtin_library().kernels()) {
      if (name == kernel.name) kernel_ = &kernel;
    }
    if (kernel_ == nullptr) throw std::invalid_argument(std::string(name));
  }

  HostCall& in(HostTensor& tensor) { return add(tensor, RANKCAST_IN); }
  HostCall& out(HostTensor& tensor) { return add(tensor, RANKCAST_OUT); }
  HostCall& add(HostTensor& tensor, rankcast_tag tag) {
    tensors_.push_back(tensor.view());
    tags_.push_back(static_cast<std::uint8_t>(tag));
    return *this;
  }
  HostCall& scalar(std::int64_t value) {
    rankcast_scalar scalar{.type = RANKCAST_SCALAR_I64, .reserved = 0, .value = {.i64 = value}};
    scalars_.push_back(scalar);
    return *this;
  }
  HostCall& scalar(double value) {
    rankcast_scalar scalar{.type = RANKCAST_SCALAR_F64, .reserved = 0, .value = {.f64 = value}};
    scalars_.push_back(scalar);
    return *this;
  }

  std::vector<DLTensor>& tensors() { return tensors_; }
  std::vector<rankcast_scalar>& scalars() { return scalars_; }

  /// As on the host: no tensor has data.
  Outcome check() const {
    std::vector<DLTensor> shapes = tensors_;
    for (DLTensor& tensor : shapes) tensor.data = nullptr;
    const rankcast_call call = call_of(shapes);
    rankcast_failure failure = no_failure();
    const int status = kernel_->check(&call, &failure);
    return {.status = status, .argument = failure.argument, .text = failure.text};
  }

  Outcome run() const {
    const rankcast_call call = call_of(tensors_);
    const std::uint32_t abort_word = 0;
    rankcast_kernel_context context{};
    context.struct_size = sizeof(context);
    context.abi_version = RANKCAST_KERNEL_ABI_VERSION;
    context.world_size = 1;
    context.abort_word = &abort_word;
    rankcast_failure failure = no_failure();
    const int status = kernel_->run(&context, nullptr, &call, &failure);
    return {.status = status, .argument = failure.argument, .text = failure.text};
  }

  /// Check, then run.
  void must_succeed() const {
    const Outcome checked = check();
    ASSERT_TRUE(checked.ok()) << checked.text;
    const Outcome ran = run();
    ASSERT_TRUE(ran.ok()) << ran.text;
  }

 private:
  rankcast_call call_of(const std::vector<DLTensor>& tensors) const {
    return {.struct_size = sizeof(rankcast_call),
            .tensor_count = static_cast<std::uint32_t>(tensors.size()),
            .tensors = tensors.data(),
            .tags = tags_.data(),
            .scalar_count = static_cast<std::uint32_t>(scalars_.size()),
            .reserved = 0,
            .scalars = scalars_.data()};
  }
  static rankcast_failure no_failure() {
    rankcast_failure failure{};
    failure.argument = -1;
    return failure;
  }

  const rankcast_kernel* kernel_ = nullptr;
  std::vector<DLTensor> tensors_;
  std::vector<std::uint8_t> tags_;
  std::vector<rankcast_scalar> scalars_;
};

}  // namespace rankcast::kernels
