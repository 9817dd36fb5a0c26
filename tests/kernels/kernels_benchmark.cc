// Nanoseconds a call of the built-in kernels, called directly. Not a test: build and run it with
//   ninja -C build/release kernels_benchmark && build/release/bin/tests/kernels_benchmark
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "rank/kernel_library.h"
#include "rankcast/kernel_abi.h"

namespace rankcast::kernels {
namespace {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

/// `inputs` dense f32 tensors of `count` elements and an output, each in memory
/// aligned as a mesh aligns it; layouts are shared as a rank's frame shares them, or not.
class Call {
 public:
  Call(std::int64_t inputs, std::int64_t count, bool shared_layout) {
    const auto tensors = static_cast<std::size_t>(inputs) + 1;
    const std::size_t slot = (static_cast<std::size_t>(count) * 4 + 255) / 256 * 256;
    memory_.reset(std::aligned_alloc(4096, (slot * tensors + 4095) / 4096 * 4096));
    layouts_.assign(tensors, {count, 1});
    for (std::size_t i = 0; i < tensors; ++i) {
      Layout& layout = layouts_[shared_layout ? 0 : i];
      auto* data = static_cast<char*>(memory_.get()) + slot * i;
      std::fill_n(data, slot, char{0});
      tensors_.push_back({.data = data,
                          .device = {.device_type = kDLCPU, .device_id = 0},
                          .ndim = 1,
                          .dtype = {.code = kDLFloat, .bits = 32, .lanes = 1},
                          .shape = &layout.extent,
                          .strides = &layout.stride,
                          .byte_offset = 0});
    }
    tags_.assign(tensors, RANKCAST_IN);
    tags_.back() = RANKCAST_OUT;
    call_.struct_size = sizeof(call_);
    call_.tensor_count = static_cast<std::uint32_t>(tensors);
    call_.tensors = tensors_.data();
    call_.tags = tags_.data();
  }

  DLTensor& out() { return tensors_.back(); }
  const rankcast_call* get() const { return &call_; }

 private:
  struct Layout {
    std::int64_t extent;
    std::int64_t stride;
  };

  std::unique_ptr<void, Free> memory_;
  std::vector<Layout> layouts_;
  std::vector<DLTensor> tensors_;
  std::vector<std::uint8_t> tags_;
  rankcast_call call_{};
};

const rankcast_kernel& kernel(std::string_view name) {
  static const rank::KernelLibrary library =
      std::move(rank::KernelLibrary::open(RANKCAST_TEST_KERNELS)).value();
  for (const rankcast_kernel& entry : library.kernels()) {
    if (name == entry.name) return entry;
  }
  std::abort();
}

void run(benchmark::State& state, const rankcast_kernel& kernel, const Call& call) {
  rankcast_kernel_context context{};
  rankcast_failure failure{};
  for (auto _ : state) {
    if (kernel.run(&context, nullptr, call.get(), &failure) != RANKCAST_OK) std::abort();
  }
}

void run_sum(benchmark::State& state) {
  const Call call(state.range(0), state.range(1), state.range(2) != 0);
  run(state, kernel("rankcast.sum"), call);
  state.SetBytesProcessed(state.iterations() * state.range(0) * state.range(1) * 4);
}
BENCHMARK(run_sum)
    ->ArgNames({"inputs", "elements", "shared"})
    ->ArgsProduct({{141}, {1, 16, 64, 1024, 16384}, {0, 1}})
    ->Args({2, 16, 1})
    ->Args({8, 1'000'000, 1});

void check_sum(benchmark::State& state) {
  const Call call(state.range(0), 16, state.range(1) != 0);
  rankcast_failure failure{};
  for (auto _ : state) {
    if (kernel("rankcast.sum").check(call.get(), &failure) != RANKCAST_OK) std::abort();
  }
}
BENCHMARK(check_sum)->ArgNames({"inputs", "shared"})->ArgsProduct({{141}, {0, 1}});

void run_checksum(benchmark::State& state) {
  Call call(1, state.range(0) / 4, false);
  std::int64_t sum = 0;
  std::int64_t one = 1;
  call.out() = {.data = &sum,
                .device = {.device_type = kDLCPU, .device_id = 0},
                .ndim = 1,
                .dtype = {.code = kDLInt, .bits = 64, .lanes = 1},
                .shape = &one,
                .strides = &one,
                .byte_offset = 0};
  run(state, kernel("rankcast.checksum"), call);
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(run_checksum)->ArgNames({"bytes"})->Arg(64)->Arg(4096)->Arg(1'000'000);

}  // namespace
}  // namespace rankcast::kernels

BENCHMARK_MAIN();
