#include <fmt/core.h>

#include <array>
#include <utility>

#include "bench/lib/job.h"
#include "rankcast/error.h"
#include "rankcast/host_view.h"

namespace rankcast::bench {

namespace {

constexpr std::size_t kElements = 16;
constexpr std::size_t kValues = 8;  // inputs are whole numbers below this
constexpr float kPoison = -1.0F;    // no sum of such inputs is negative

float initial_value(std::size_t input, std::size_t rank, std::size_t element) {
  return static_cast<float>((input * 3 + rank * 5 + element) % kValues);
}

class SumRounds final : public Rounds {
 public:
  SumRounds(std::size_t inputs, std::size_t ranks)
      : inputs_(inputs, std::vector<float>(ranks * kElements)),
        expected_(ranks * kElements, 0.0F),
        poison_(ranks * kElements, kPoison) {
    for (std::size_t input = 0; input < inputs; ++input) {
      for (std::size_t at = 0; at < ranks * kElements; ++at) {
        inputs_[input][at] = initial_value(input, at / kElements, at % kElements);
        expected_[at] += inputs_[input][at];
      }
    }
  }

  Preparation next() override {
    ++round_;
    const std::size_t input = round_ % inputs_.size();
    std::vector<float>& values = inputs_[input];
    for (std::size_t rank = 0; rank * kElements < values.size(); ++rank) {
      const std::size_t at = rank * kElements + (round_ / inputs_.size() + rank) % kElements;
      const float before = values[at];
      values[at] = before + 1 < static_cast<float>(kValues) ? before + 1 : 0.0F;
      expected_[at] += values[at] - before;
    }
    return {input, std::as_bytes(std::span(values)), inputs_.size(),
            std::as_bytes(std::span(poison_))};
  }

  std::optional<Mismatch> check(std::span<const std::byte> outputs,
                                std::span<const int> checked) const override {
    const auto* found = reinterpret_cast<const float*>(outputs.data());
    for (const int rank : checked) {
      const std::size_t first = static_cast<std::size_t>(rank) * kElements;
      for (std::size_t i = 0; i < kElements; ++i) {
        if (found[first + i] == expected_[first + i]) continue;
        return Mismatch{rank, "output", static_cast<std::int64_t>(i),
                        fmt::format("{}", found[first + i]),
                        fmt::format("{}", expected_[first + i])};
      }
    }
    return std::nullopt;
  }

 private:
  std::size_t round_ = 0;
  std::vector<std::vector<float>> inputs_;  // what the side's inputs hold now
  std::vector<float> expected_;             // their sums
  std::vector<float> poison_;
};

class SumJob final : public Job {
 public:
  SumJob(std::size_t ranks, std::size_t inputs) : ranks_(ranks), zeros_(ranks * kElements, 0.0F) {
    for (std::size_t input = 0; input < inputs; ++input) {
      tensors_.push_back({fmt::format("input{}", input), DType::f32, {kElements}, Tag::in});
      std::vector<float> values(ranks * kElements);
      for (std::size_t at = 0; at < values.size(); ++at) {
        values[at] = initial_value(input, at / kElements, at % kElements);
      }
      inputs_.push_back(std::move(values));
    }
    tensors_.push_back({"output", DType::f32, {kElements}, Tag::out});
  }

  const char* name() const override { return "sum"; }
  const char* kernel() const override { return "rankcast.sum"; }
  int ranks() const override { return static_cast<int>(ranks_); }
  std::span<const JobTensor> tensors() const override { return tensors_; }

  std::span<const std::byte> initial(std::size_t tensor, int rank) const override {
    return std::as_bytes(
        std::span(stack(tensor)).subspan(static_cast<std::size_t>(rank) * kElements, kElements));
  }

  std::vector<StackedDeviceTensor> place(Mesh& mesh,
                                         std::span<const std::size_t> order) const override {
    std::vector<StackedDeviceTensor> placed;
    const Shape stacked{static_cast<std::int64_t>(ranks_), kElements};
    for (const std::size_t tensor : order) {
      placed.push_back(mesh.alloc_stacked(HostView(stack(tensor).data(), stacked)));
    }
    return placed;
  }

  std::unique_ptr<Rounds> rounds() const override {
    return std::make_unique<SumRounds>(inputs_.size(), ranks_);
  }

 private:
  const std::vector<float>& stack(std::size_t tensor) const {
    return tensor < inputs_.size() ? inputs_[tensor] : zeros_;
  }

  std::size_t ranks_;
  std::vector<JobTensor> tensors_;
  std::vector<std::vector<float>> inputs_;
  std::vector<float> zeros_;
};

}  // namespace

std::unique_ptr<Job> make_sum_job(int ranks, int tensor_args) {
  if (ranks < 1 || tensor_args < 2) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a sum needs at least 1 rank and 2 tensors (an input and the output); "
                            "got {} and {}",
                            ranks, tensor_args));
  }
  return std::make_unique<SumJob>(static_cast<std::size_t>(ranks),
                                  static_cast<std::size_t>(tensor_args) - 1);
}

}  // namespace rankcast::bench
