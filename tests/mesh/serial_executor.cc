#include "mesh/serial_executor.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <type_traits>

namespace rankcast::test {
namespace {

/// Calls `visit` with a zero of the type of `dtype`'s elements.
template <class Visit>
auto with_type(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::f64:
      return visit(double{});
    case DType::f32:
      return visit(float{});
    case DType::i64:
      return visit(std::int64_t{});
    case DType::i32:
      return visit(std::int32_t{});
    case DType::i16:
      return visit(std::int16_t{});
    case DType::i8:
      return visit(std::int8_t{});
    case DType::u8:
      return visit(std::uint8_t{});
    default:
      break;
  }
  std::abort();  // programs have no others
}

/// Integers wrap around.
template <class T>
T add(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a + b;
  } else {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }
}

}  // namespace

Bytes pattern_bytes(DType dtype, std::int64_t count, std::uint64_t pattern) {
  std::mt19937_64 random(pattern);
  Bytes bytes(static_cast<std::size_t>(count) * size_bytes(dtype));
  with_type(dtype, [&](auto zero) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(zero)) {
      const auto value = static_cast<decltype(zero)>(random() % 100);
      std::memcpy(&bytes[at], &value, sizeof(value));
    }
  });
  return bytes;
}

Bytes renewed_bytes(const std::vector<BufferSpec>& specs, std::size_t buffer,
                    std::uint64_t pattern) {
  return pattern_bytes(specs[buffer].dtype, HostLayout(buffer, specs[buffer]).element_count(),
                       pattern + buffer);
}

SerialExecutor::SerialExecutor(const std::vector<BufferSpec>& specs) : specs_(specs) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto count = static_cast<std::size_t>(HostLayout(i, specs[i]).element_count());
    buffers_.emplace_back(count * size_bytes(specs[i].dtype));
  }
}

template <class T>
std::vector<T> SerialExecutor::load(const HostLayout& view) const {
  const Bytes& from = buffers_[view.buffer()];
  std::vector<T> values;
  for (const std::int64_t place : view.elements()) {
    T value;
    std::memcpy(&value, &from.at(static_cast<std::size_t>(place) * sizeof(T)), sizeof(T));
    values.push_back(value);
  }
  return values;
}

template <class T>
void SerialExecutor::store(const HostLayout& view, const std::vector<T>& values) {
  Bytes& to = buffers_[view.buffer()];
  std::size_t next = 0;
  for (const std::int64_t place : view.elements())
    std::memcpy(&to.at(static_cast<std::size_t>(place) * sizeof(T)), &values.at(next++), sizeof(T));
}

template <class T>
void SerialExecutor::run_as(const ProgramTask& task) {
  switch (task.kind) {
    case ProgramTask::Kind::fill: {
      const HostLayout& to = task.args[0].view;
      store(to, std::vector<T>(static_cast<std::size_t>(to.element_count()),
                               static_cast<T>(task.value)));
      break;
    }
    case ProgramTask::Kind::copy:
      store(task.args[1].view, load<T>(task.args[0].view));
      break;
    case ProgramTask::Kind::copy_between_ranks:
      store(task.args[0].view, load<T>(task.args[1].view));
      break;
    case ProgramTask::Kind::sum: {
      std::vector<T> sums = load<T>(task.args[0].view);
      for (std::size_t i = 1; i + 1 < task.args.size(); ++i) {
        const std::vector<T> more = load<T>(task.args[i].view);
        for (std::size_t at = 0; at < sums.size(); ++at) sums[at] = add(sums[at], more[at]);
      }
      store(task.args.back().view, sums);
      break;
    }
    case ProgramTask::Kind::yield:
      break;
  }
}

void SerialExecutor::run(const ProgramTask& task) {
  if (task.args.empty()) return;
  with_type(specs_[task.args[0].view.buffer()].dtype,
            [&](auto zero) { run_as<decltype(zero)>(task); });
}

void SerialExecutor::upload(const HostLayout& view, std::span<const std::byte> bytes) {
  with_type(specs_[view.buffer()].dtype, [&](auto zero) {
    std::vector<decltype(zero)> values(bytes.size() / sizeof(zero));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    store(view, values);
  });
}

Bytes SerialExecutor::download(const HostLayout& view) const {
  return with_type(specs_[view.buffer()].dtype, [&](auto zero) {
    const auto values = load<decltype(zero)>(view);
    Bytes bytes(values.size() * sizeof(zero));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  });
}

bool SerialExecutor::has_large_numbers(std::size_t buffer) const {
  constexpr double kLarge = 1 << 20;
  return with_type(specs_[buffer].dtype, [&](auto zero) {
    if constexpr (std::is_floating_point_v<decltype(zero)>) {
      for (const auto value : load<decltype(zero)>(HostLayout(buffer, specs_[buffer]))) {
        if (std::abs(value) > kLarge) return true;
      }
    }
    return false;
  });
}

}  // namespace rankcast::test
