// The ranks of a reference as threads.
#include <fmt/core.h>

#include <system_error>
#include <thread>
#include <vector>

#include "base/segment.h"
#include "bench/lib/reference_rank.h"
#include "bench/lib/reference_ranks.h"
#include "rankcast/error.h"

namespace rankcast::bench {

namespace {

class ThreadRanks final : public ReferenceRanks {
 public:
  explicit ThreadRanks(const rankcast_kernel* kernel) : kernel_(kernel) {}
  ~ThreadRanks() override { join(); }

  const char* kind() const override { return "thread"; }

  std::byte* allocate(std::size_t bytes) override {
    segment_ = base::value_or_throw(base::Segment::reserve(bytes));
    return segment_.base();
  }

  void start(const ReferenceMemory& memory) override {
    for (std::size_t rank = 0; rank < memory.ranks(); ++rank) {
      try {
        threads_.emplace_back(
            [this, memory, rank] { run_reference_rank(memory, static_cast<int>(rank), kernel_); });
      } catch (const std::system_error& error) {
        throw Error(ErrorCode::out_of_memory,
                    fmt::format("the reference cannot start the thread of rank {}: {}", rank,
                                error.what()));
      }
    }
  }

  void join() noexcept override {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  std::optional<std::string> find_lost() override { return std::nullopt; }

 private:
  const rankcast_kernel* kernel_;  // borrowed from the caller, outlived because it says so
  base::Segment segment_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<ReferenceRanks> thread_ranks(const rankcast_kernel* kernel) {
  return std::make_unique<ThreadRanks>(kernel);
}

}  // namespace rankcast::bench
