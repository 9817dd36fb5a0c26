#include "bench/lib/reference.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <latch>
#include <numeric>
#include <random>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/futex.h"
#include "bench/lib/dl_type.h"
#include "rankcast/error.h"

namespace rankcast::bench {

namespace {

constexpr std::size_t kBufferAlignment = 256;
constexpr double kMicro = 1e-3;

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

template <class T>
T* allocate_bytes(std::uint64_t bytes, std::size_t alignment) {
  void* memory =
      std::aligned_alloc(alignment, round_up(std::max<std::uint64_t>(bytes, 1), alignment));
  if (memory == nullptr) {
    throw Error(
        ErrorCode::out_of_memory,
        fmt::format("the reference needs {} bytes for one rank, and there are none", bytes));
  }
  return static_cast<T*>(memory);
}

}  // namespace

const char* bell_name(Bell bell) noexcept {
  return bell == Bell::each ? "one bell a rank" : "one bell for all";
}

Reference::Reference(const Job& job, const rankcast_kernel* kernel, base::SpinPolicy spin)
    : kernel_(kernel), spin_(spin) {
  lay_out(job);
  start();
}

Reference::~Reference() { stop(); }

void Reference::lay_out(const Job& job) {
  const std::span<const JobTensor> tensors = job.tensors();
  const std::size_t ranks = static_cast<std::size_t>(job.ranks());
  args_ = tensors.size();
  for (const JobTensor& tensor : tensors) {
    Layout& layout = layouts_.emplace_back();
    layout.dims = tensor.shape.dims();
    std::int64_t stride = 1;
    for (int dim = layout.dims - 1; dim >= 0; --dim) {
      layout.shape[static_cast<std::size_t>(dim)] = tensor.shape[dim];
      layout.strides[static_cast<std::size_t>(dim)] = stride;
      stride *= tensor.shape[dim];
    }
    tags_.push_back(static_cast<std::uint8_t>(tensor.tag));
  }

  // Handles meet the table, and tensors the memory, in no order.
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same layout in every run
  std::vector<std::uint32_t> slot_of(ranks * args_);
  std::iota(slot_of.begin(), slot_of.end(), 0U);
  std::shuffle(slot_of.begin(), slot_of.end(), random);
  slots_.resize(slot_of.size());
  std::vector<std::size_t> order(args_);
  std::iota(order.begin(), order.end(), std::size_t{0});

  for (std::size_t rank = 0; rank < ranks; ++rank) {
    Lane& lane = *lanes_.emplace_back(std::make_unique<Lane>());
    std::shuffle(order.begin(), order.end(), random);
    lane.offsets.resize(args_);
    for (const std::size_t tensor : order) {
      lane.offsets[tensor] = lane.memory_bytes;
      lane.memory_bytes += round_up(tensors[tensor].size_bytes(), kBufferAlignment);
    }
    lane.memory.reset(allocate_bytes<std::byte>(lane.memory_bytes, kBufferAlignment));
    lane.frame.reset(allocate_bytes<Slot>(args_ * sizeof(Slot), 4096));
    std::uninitialized_default_construct_n(lane.frame.get(), args_);
    for (std::size_t tensor = 0; tensor < args_; ++tensor) {
      const std::span<const std::byte> bytes = job.initial(tensor, static_cast<int>(rank));
      std::memcpy(lane.memory.get() + lane.offsets[tensor], bytes.data(), bytes.size());
      const std::uint32_t at = slot_of[rank * args_ + tensor];
      slots_[at] = Slot{at % 7 + 1,   static_cast<std::uint32_t>(tensor), at, lane.offsets[tensor],
                        bytes.size(), dl_type(tensors[tensor].dtype)};
      handles_.push_back({at, slots_[at].generation});
    }
  }
  times_.entry_us.resize(ranks);
}

std::span<std::byte> Reference::tensor(int rank, std::size_t index) {
  const Lane& lane = *lanes_[static_cast<std::size_t>(rank)];
  const Handle& handle = handles_[static_cast<std::size_t>(rank) * args_ + index];
  return {lane.memory.get() + lane.offsets[index], slots_[handle.slot].bytes};
}

void Reference::use(ReferenceChoice choice) {
  const bool other_bell = choice.bell != choice_.bell;
  if (other_bell) stop();
  choice_ = choice;
  if (other_bell) start();
}

// Host side.

bool Reference::pack(std::size_t rank, bool write) noexcept {
  const std::size_t table_size = slots_.size();
  const Handle* handles = handles_.data() + rank * args_;
  std::uint32_t bad = 0;
  const auto checked = [&](Handle handle) -> const Slot& {
    const bool outside = handle.slot >= table_size;
    const Slot& slot = slots_[outside ? 0 : handle.slot];
    bad |= (slot.generation ^ handle.generation) | static_cast<std::uint32_t>(outside);
    return slot;
  };
  Slot* frame = lanes_[rank]->frame.get();
  if (!write) {
    for (std::size_t i = 0; i < args_; ++i) checked(handles[i]);
  } else if (choice_.stores == base::StoreKind::ordinary) {
    for (std::size_t i = 0; i < args_; ++i) frame[i] = checked(handles[i]);
  } else {
    for (std::size_t i = 0; i < args_; ++i) {
      base::store_frame(frame + i, &checked(handles[i]), sizeof(Slot), choice_.stores);
    }
  }
  return bad == 0;
}

// The race: a rank says that it sleeps and looks at its bell again; the host rings and looks who
// sleeps. With all four sequentially consistent one of them sees the other.
void Reference::ring(std::uint32_t round) noexcept {
  if (choice_.bell == Bell::all) {
    base::store_seq_cst(bell_for_all_, round);  // pairs: reference-bell
    if (base::load_seq_cst(ranks_asleep_) != 0) base::futex_wake(bell_for_all_, base::kFutexAll);
    return;
  }
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    base::store_seq_cst(lane->bell, round);  // pairs: reference-bell
    if (base::load_seq_cst(lane->asleep) != 0) base::futex_wake(lane->bell, base::kFutexAll);
  }
}

// The race: the host says that it sleeps and looks at `done_` again; the last rank stores `done_`
// and looks whether the host sleeps.
bool Reference::wait_done(std::uint32_t round, std::int64_t limit_ns) noexcept {
  base::Spinner spinner(spin_);
  do {
    if (base::load_acquire(done_) == round) return true;  // pairs: reference-done
  } while (spinner.keep_spinning());
  const base::Deadline deadline = base::Deadline::after(limit_ns);
  for (;;) {
    base::store_seq_cst(host_asleep_, 1);
    const std::uint32_t seen = base::load_seq_cst(done_);  // pairs: reference-done
    base::FutexResult slept = base::FutexResult::changed;
    if (seen != round) slept = base::futex_wait(done_, seen, base::kFutexAll, deadline);
    base::store_relaxed(host_asleep_, 0);  // relaxed: a stale 1 costs one wake-up call, no more
    if (base::load_acquire(done_) == round) return true;  // pairs: reference-done
    if (slept == base::FutexResult::timed_out) return false;
  }
}

const RoundTimes& Reference::round(Packing packing, std::chrono::nanoseconds limit) {
  const std::uint32_t round = ++round_;
  const bool write = packing == Packing::repacked || !packed_;
  base::store_relaxed(left_,
                      static_cast<std::uint32_t>(lanes_.size()));  // relaxed: the bell orders it
  const std::int64_t begin = base::now_ns();
  bool good = true;
  for (std::size_t rank = 0; rank < lanes_.size(); ++rank) good &= pack(rank, write);
  if (!good) throw Error(ErrorCode::internal, "the reference holds a handle that names no slot");
  if (write) base::store_fence(choice_.stores);
  packed_ = true;
  ring(round);
  const std::int64_t submitted = base::now_ns();
  const bool finished = wait_done(round, limit.count());
  const std::int64_t done = base::now_ns();
  if (!finished) {
    throw Error(ErrorCode::deadline_exceeded,
                "the ranks of the reference have not finished in time");
  }
  take_report(begin, submitted, done);
  return times_;
}

void Reference::take_report(std::int64_t begin_ns, std::int64_t submitted_ns,
                            std::int64_t done_ns) {
  times_.submit_us = static_cast<double>(submitted_ns - begin_ns) * kMicro;
  times_.wait_us = static_cast<double>(done_ns - submitted_ns) * kMicro;
  times_.total_us = static_cast<double>(done_ns - begin_ns) * kMicro;
  for (std::size_t rank = 0; rank < lanes_.size(); ++rank) {
    const Lane& lane = *lanes_[rank];
    if (lane.status != RANKCAST_OK) {
      throw Error(ErrorCode::task_failed,
                  fmt::format("the kernel failed on rank {} of the reference: {}", rank,
                              lane.failure.text));
    }
    times_.entry_us[rank] = static_cast<double>(lane.entry_ns - begin_ns) * kMicro;
  }
  const auto [first, last] = std::minmax_element(times_.entry_us.begin(), times_.entry_us.end());
  times_.entry_spread_us = *last - *first;
}

void Reference::start() {
  base::store_relaxed(stop_, 0);  // relaxed: no thread is there yet
  std::latch ready(static_cast<std::ptrdiff_t>(lanes_.size()));
  std::size_t rank = 0;
  try {
    for (; rank < lanes_.size(); ++rank) {
      lanes_[rank]->thread =
          std::thread([this, &ready, rank, bell = choice_.bell, first = round_ + 1] {
            run_rank(static_cast<int>(rank), bell, first, ready);
          });
    }
  } catch (const std::system_error& error) {
    ready.count_down(static_cast<std::ptrdiff_t>(lanes_.size() - rank));
    ready.wait();
    stop();
    throw Error(
        ErrorCode::out_of_memory,
        fmt::format("the reference cannot start the thread of rank {}: {}", rank, error.what()));
  }
  ready.wait();
  for (rank = 0; rank < lanes_.size(); ++rank) {
    if (lanes_[rank]->status == RANKCAST_OK) continue;
    const std::string text = lanes_[rank]->failure.text;
    stop();
    throw Error(ErrorCode::task_failed, fmt::format("the kernel cannot be prepared: {}", text));
  }
}

void Reference::stop() noexcept {
  base::store_relaxed(stop_, 1);  // relaxed: the bell orders it
  ring(round_ + 1);
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (lane->thread.joinable()) lane->thread.join();
  }
  ring(round_);
}

}  // namespace rankcast::bench
