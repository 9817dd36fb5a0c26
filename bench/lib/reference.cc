#include "bench/lib/reference.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "bench/lib/dl_type.h"
#include "rankcast/error.h"

namespace rankcast::bench {

namespace {

constexpr std::size_t kBufferAlignment = 256;
constexpr double kMicro = 1e-3;
constexpr std::int64_t kLookNs = 100'000'000;  // of a sleep, before a look for ranks that are gone
constexpr std::int64_t kStartLimitNs = 30'000'000'000;

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

base::Deadline next_look(base::Deadline deadline) {
  return base::Deadline::at(std::min(deadline.ns(), base::now_ns() + kLookNs));
}

}  // namespace

const char* bell_name(Bell bell) noexcept {
  return bell == Bell::each ? "one bell a rank" : "one bell for all";
}

Reference::Reference(const Job& job, std::unique_ptr<ReferenceRanks> ranks, base::SpinPolicy spin)
    : ranks_(std::move(ranks)), spin_(spin) {
  lay_out(job);
  start();
}

Reference::~Reference() { stop(); }

void Reference::lay_out(const Job& job) {
  const std::span<const JobTensor> tensors = job.tensors();
  const std::size_t ranks = static_cast<std::size_t>(job.ranks());
  args_ = tensors.size();
  ReferenceSizes sizes{static_cast<std::uint32_t>(ranks), static_cast<std::uint32_t>(args_), 0};
  for (const JobTensor& tensor : tensors) {
    sizes.tensor_bytes += round_up(tensor.size_bytes(), kBufferAlignment);
  }
  memory_ = ReferenceMemory::create(ranks_->allocate(ReferenceMemory::bytes_needed(sizes)), sizes);
  memory_.head().spin = spin_;
  for (std::size_t i = 0; i < args_; ++i) {
    const JobTensor& tensor = tensors[i];
    ReferenceLayout& layout = memory_.layouts()[i];
    layout.dtype = dl_type(tensor.dtype);
    layout.dims = tensor.shape.dims();
    std::int64_t stride = 1;
    for (int dim = layout.dims - 1; dim >= 0; --dim) {
      layout.shape[static_cast<std::size_t>(dim)] = tensor.shape[dim];
      layout.strides[static_cast<std::size_t>(dim)] = stride;
      stride *= tensor.shape[dim];
    }
    memory_.tags()[i] = static_cast<std::uint8_t>(tensor.tag);
  }

  // Handles meet the table, and tensors the memory, in no order.
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same layout in every run
  std::vector<std::uint32_t> slot_of(ranks * args_);
  std::iota(slot_of.begin(), slot_of.end(), 0U);
  std::shuffle(slot_of.begin(), slot_of.end(), random);
  slots_.resize(slot_of.size());
  offsets_.resize(slot_of.size());
  std::vector<std::size_t> order(args_);
  std::iota(order.begin(), order.end(), std::size_t{0});

  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::shuffle(order.begin(), order.end(), random);
    std::uint64_t end = 0;
    for (const std::size_t tensor : order) {
      offsets_[rank * args_ + tensor] = end;
      end += round_up(tensors[tensor].size_bytes(), kBufferAlignment);
    }
    for (std::size_t tensor = 0; tensor < args_; ++tensor) {
      const std::span<const std::byte> bytes = job.initial(tensor, static_cast<int>(rank));
      const std::uint64_t offset = offsets_[rank * args_ + tensor];
      std::memcpy(memory_.tensors(rank) + offset, bytes.data(), bytes.size());
      const std::uint32_t at = slot_of[rank * args_ + tensor];
      slots_[at] = ReferenceSlot{at % 7 + 1,   static_cast<std::uint32_t>(tensor), at, offset,
                                 bytes.size(), dl_type(tensors[tensor].dtype)};
      handles_.push_back({at, slots_[at].generation});
    }
  }
  times_.entry_us.resize(ranks);
}

std::span<std::byte> Reference::tensor(int rank, std::size_t index) {
  const std::size_t at = static_cast<std::size_t>(rank) * args_ + index;
  return {memory_.tensors(static_cast<std::size_t>(rank)) + offsets_[at],
          slots_[handles_[at].slot].bytes};
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
  const auto checked = [&](Handle handle) -> const ReferenceSlot& {
    const bool outside = handle.slot >= table_size;
    const ReferenceSlot& slot = slots_[outside ? 0 : handle.slot];
    bad |= (slot.generation ^ handle.generation) | static_cast<std::uint32_t>(outside);
    return slot;
  };
  ReferenceSlot* frame = memory_.frame(rank);
  if (!write) {
    for (std::size_t i = 0; i < args_; ++i) checked(handles[i]);
  } else if (choice_.stores == base::StoreKind::ordinary) {
    for (std::size_t i = 0; i < args_; ++i) frame[i] = checked(handles[i]);
  } else {
    for (std::size_t i = 0; i < args_; ++i) {
      base::store_frame(frame + i, &checked(handles[i]), sizeof(ReferenceSlot), choice_.stores);
    }
  }
  return bad == 0;
}

// The race: a rank says that it sleeps and looks at its bell again; the host rings and looks who
// sleeps. With all four sequentially consistent one of them sees the other.
void Reference::ring(std::uint32_t round) noexcept {
  ReferenceHead& head = memory_.head();
  if (choice_.bell == Bell::all) {
    base::store_seq_cst(head.bell_for_all, round);  // pairs: reference-bell
    if (base::load_seq_cst(head.ranks_asleep) != 0) {
      base::futex_wake(head.bell_for_all, base::kFutexAll);
    }
    return;
  }
  for (std::size_t rank = 0; rank < memory_.ranks(); ++rank) {
    ReferenceLane& lane = memory_.lane(rank);
    base::store_seq_cst(lane.bell, round);  // pairs: reference-bell
    if (base::load_seq_cst(lane.asleep) != 0) base::futex_wake(lane.bell, base::kFutexAll);
  }
}

// The race: the host says that it sleeps and looks at `done` again; the last rank stores `done`
// and looks whether the host sleeps.
bool Reference::wait_done(std::uint32_t round, std::int64_t limit_ns) {
  ReferenceHead& head = memory_.head();
  base::Spinner spinner(spin_);
  do {
    if (base::load_acquire(head.done) == round) return true;  // pairs: reference-done
  } while (spinner.keep_spinning());
  const base::Deadline deadline = base::Deadline::after(limit_ns);
  for (;;) {
    base::store_seq_cst(head.host_asleep, 1);
    const std::uint32_t seen = base::load_seq_cst(head.done);  // pairs: reference-done
    if (seen != round) base::futex_wait(head.done, seen, base::kFutexAll, next_look(deadline));
    base::store_relaxed(head.host_asleep, 0);  // relaxed: a stale 1 costs one wake-up call, no more
    if (base::load_acquire(head.done) == round) return true;  // pairs: reference-done
    throw_if_lost();
    if (deadline.passed()) return false;
  }
}

void Reference::throw_if_lost() {
  const std::optional<std::string> lost = ranks_->find_lost();
  if (lost)
    throw Error(ErrorCode::rank_lost, fmt::format("a rank of the reference has ended: {}", *lost));
}

const RoundTimes& Reference::round(Packing packing, std::chrono::nanoseconds limit) {
  const std::uint32_t round = ++round_;
  const bool write = packing == Packing::repacked || !packed_;
  const auto ranks = static_cast<std::uint32_t>(memory_.ranks());
  base::store_relaxed(memory_.head().left, ranks);  // relaxed: the bell orders it
  const std::int64_t begin = base::now_ns();
  bool good = true;
  for (std::size_t rank = 0; rank < ranks; ++rank) good &= pack(rank, write);
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
  for (std::size_t rank = 0; rank < memory_.ranks(); ++rank) {
    const ReferenceLane& lane = memory_.lane(rank);
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
  ReferenceHead& head = memory_.head();
  head.bell = choice_.bell;
  head.first_round = round_ + 1;
  base::store_relaxed(head.stop, 0);   // relaxed: no rank is there yet
  base::store_relaxed(head.ready, 0);  // relaxed: the same
  try {
    ranks_->start(memory_);
    wait_ready();
    for (std::size_t rank = 0; rank < memory_.ranks(); ++rank) {
      const ReferenceLane& lane = memory_.lane(rank);
      if (lane.status == RANKCAST_OK) continue;
      throw Error(ErrorCode::task_failed,
                  fmt::format("the kernel cannot be prepared: {}", lane.failure.text));
    }
  } catch (...) {
    stop();
    throw;
  }
}

void Reference::wait_ready() {
  std::atomic<std::uint32_t>& ready = memory_.head().ready;
  const base::Deadline deadline = base::Deadline::after(kStartLimitNs);
  for (;;) {
    const std::uint32_t seen = base::load_seq_cst(ready);  // pairs: reference-ready
    if (seen == memory_.ranks()) return;
    if (deadline.passed()) {
      throw Error(ErrorCode::deadline_exceeded,
                  fmt::format("of {} ranks of the reference {} have started in time",
                              memory_.ranks(), seen));
    }
    throw_if_lost();
    base::futex_wait(ready, seen, base::kFutexAll, next_look(deadline));
  }
}

void Reference::stop() noexcept {
  base::store_relaxed(memory_.head().stop, 1);  // relaxed: the bell orders it
  ring(round_ + 1);
  ranks_->join();
  ring(round_);
}

}  // namespace rankcast::bench
