#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "bench/lib/host_checksum.h"
#include "bench/lib/job.h"
#include "rankcast/error.h"
#include "rankcast/host_view.h"
#include "rankcast/safetensors.h"

namespace rankcast::bench {

namespace {

constexpr std::size_t kCounters = 16;  // elements of the small input that changes
constexpr const char* kChangingName = "rounds (changes each round)";

// Tensors of the task: the file's, then the one that changes, then the output.
class ChecksumRounds final : public Rounds {
 public:
  ChecksumRounds(std::span<const JobTensor> tensors, const std::vector<std::int64_t>& file_sums,
                 std::size_t ranks)
      : tensors_(tensors),
        file_sums_(file_sums),
        sums_(file_sums.size() + 1),
        counters_(ranks * kCounters, 0),
        expected_(ranks * sums_),
        poison_(ranks * sums_) {}

  Preparation next() override {
    ++round_;
    for (std::size_t rank = 0; rank * kCounters < counters_.size(); ++rank) {
      std::int64_t* counters = counters_.data() + rank * kCounters;
      counters[(round_ + rank) % kCounters] = static_cast<std::int64_t>(round_ * 1000 + rank);
      std::int64_t* expected = expected_.data() + rank * sums_;
      std::copy(file_sums_.begin(), file_sums_.end(), expected);
      expected[sums_ - 1] = host_checksum(std::as_bytes(std::span(counters, kCounters)));
    }
    for (std::size_t i = 0; i < poison_.size(); ++i) poison_[i] = ~expected_[i];
    return {sums_ - 1, std::as_bytes(std::span(counters_)), sums_,
            std::as_bytes(std::span(poison_))};
  }

  std::optional<Mismatch> check(std::span<const std::byte> outputs,
                                std::span<const int> checked) const override {
    for (const int rank : checked) {
      for (std::size_t i = 0; i < sums_; ++i) {
        const std::size_t at = static_cast<std::size_t>(rank) * sums_ + i;
        std::int64_t found = 0;
        std::memcpy(&found, outputs.data() + at * sizeof(found), sizeof(found));
        if (found == expected_[at]) continue;
        return Mismatch{rank, fmt::format("checksum of \"{}\"", tensors_[i].name),
                        static_cast<std::int64_t>(i),
                        fmt::format("{:016x}", static_cast<std::uint64_t>(found)),
                        fmt::format("{:016x}", static_cast<std::uint64_t>(expected_[at]))};
      }
    }
    return std::nullopt;
  }

 private:
  std::span<const JobTensor> tensors_;          // borrowed from the job, which outlives its rounds
  const std::vector<std::int64_t>& file_sums_;  // the same
  std::size_t sums_;                            // checksums a rank
  std::size_t round_ = 0;
  std::vector<std::int64_t> counters_;
  std::vector<std::int64_t> expected_;
  std::vector<std::int64_t> poison_;
};

class ChecksumJob final : public Job {
 public:
  ChecksumJob(std::size_t ranks, SafetensorsFile file) : ranks_(ranks), file_(std::move(file)) {
    for (const SafetensorsFile::Entry& entry : file_.entries()) {
      const std::span<const std::int64_t> extents = entry.extents;
      tensors_.push_back(
          {entry.name, entry.dtype, extents.empty() ? Shape{1} : Shape(extents), Tag::in});
      file_sums_.push_back(host_checksum(file_.bytes(entry)));
    }
    const auto sums = static_cast<std::int64_t>(tensors_.size() + 1);
    tensors_.push_back({kChangingName, DType::i64, {kCounters}, Tag::in});
    tensors_.push_back({"output", DType::i64, {sums}, Tag::out});
    zeros_.resize(ranks * std::max<std::size_t>(kCounters, static_cast<std::size_t>(sums)), 0);
  }

  const char* name() const override { return "checksum"; }
  const char* kernel() const override { return "rankcast.checksum"; }
  int ranks() const override { return static_cast<int>(ranks_); }
  std::span<const JobTensor> tensors() const override { return tensors_; }

  std::span<const std::byte> initial(std::size_t tensor, int /*rank*/) const override {
    if (tensor < file_sums_.size()) return file_.bytes(file_.entries()[tensor]);
    return std::as_bytes(std::span(zeros_)).first(tensors_[tensor].size_bytes());
  }

  // The file's tensors go where load_replicated puts them, at the first of them in `order`.
  std::vector<StackedDeviceTensor> place(Mesh& mesh,
                                         std::span<const std::size_t> order) const override {
    std::vector<ResidentTensor> resident;
    std::vector<StackedDeviceTensor> placed;
    for (const std::size_t tensor : order) {
      if (tensor >= file_sums_.size()) {
        const Shape stacked = tensors_[tensor].shape.prepended(static_cast<std::int64_t>(ranks_));
        placed.push_back(mesh.alloc_stacked(HostView(zeros_.data(), stacked)));
        continue;
      }
      if (resident.empty()) resident = load_replicated(mesh, file_);
      placed.push_back(resident[tensor].tensor);
    }
    return placed;
  }

  std::unique_ptr<Rounds> rounds() const override {
    return std::make_unique<ChecksumRounds>(tensors_, file_sums_, ranks_);
  }

 private:
  std::size_t ranks_;
  SafetensorsFile file_;
  std::vector<JobTensor> tensors_;
  std::vector<std::int64_t> file_sums_;
  std::vector<std::int64_t> zeros_;
};

}  // namespace

std::unique_ptr<Job> make_checksum_job(int ranks, const std::string& path) {
  SafetensorsFile file = SafetensorsFile::open(path);
  if (file.entries().empty()) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{} holds no tensors", path));
  }
  if (ranks < 1) throw Error(ErrorCode::invalid_argument, "a job needs at least 1 rank");
  return std::make_unique<ChecksumJob>(static_cast<std::size_t>(ranks), std::move(file));
}

}  // namespace rankcast::bench
