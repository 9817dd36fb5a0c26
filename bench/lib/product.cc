#include "bench/lib/product.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <span>

#include "base/clock.h"
#include "bench/lib/allocation_counter.h"
#include "rankcast/error.h"
#include "rankcast/host_view.h"

namespace rankcast::bench {

namespace {

constexpr double kMicro = 1e-3;

bool runs_kernels(const RankInfo& rank) { return !rank.device.starts_with("null"); }

// Buffers that nobody uses: they only take their place in the table and in memory.
void add_spares(Mesh& mesh, std::uint64_t count, const Shape& shape, DType dtype) {
  const std::uint64_t ranks = static_cast<std::uint64_t>(mesh.world_size());
  for (; count >= ranks; count -= ranks) {
    mesh.alloc_stacked(shape.prepended(static_cast<std::int64_t>(ranks)), dtype);
  }
  for (std::uint64_t rank = 0; rank < count; ++rank) {
    mesh.alloc(static_cast<int>(rank), shape, dtype);
  }
}

}  // namespace

Product::Product(const Job& job, Mesh mesh, const ProductOptions& options)
    : job_(job),
      options_(options),
      mesh_(std::move(mesh)),
      program_(program()),
      rounds_(job.rounds()) {
  if (options.kernel) mesh_.register_kernel(options.kernel->first, options.kernel->second);
  for (const RankInfo& rank : mesh_.ranks()) {
    if (runs_kernels(rank)) checked_.push_back(rank.rank);
  }
  place_tensors(options.live_buffers);
  live_buffers_ = mesh_.stats().live_buffers;
  times_.entry_us.resize(static_cast<std::size_t>(job.ranks()));
}

Program Product::program() const {
  const std::string kernel = options_.kernel ? options_.kernel->first : job_.kernel();
  return Program(job_.name(), [kernel](Orchestrator& orch, const Arguments& args) {
    const std::size_t output = args.size() - 1;
    for (int rank = 0; rank < orch.world_size(); ++rank) {
      TaskArgs task;
      for (std::size_t i = 0; i < output; ++i) task.in(args[i].shard_on(rank));
      task.out(args[output].shard_on(rank));
      orch.submit(kernel, rank, task);
    }
  });
}

void Product::place_tensors(std::uint64_t live_buffers) {
  const std::span<const JobTensor> wanted = job_.tensors();
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same layout in every run
  std::vector<std::size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);

  const std::uint64_t own = wanted.size() * static_cast<std::uint64_t>(job_.ranks());
  const std::uint64_t spares = live_buffers > own ? live_buffers - own : 0;
  tensors_.resize(wanted.size());
  if (spares == 0) {
    std::vector<StackedDeviceTensor> placed = job_.place(mesh_, order);
    for (std::size_t i = 0; i < order.size(); ++i) tensors_[order[i]] = std::move(placed[i]);
  } else {
    // Cut points, sorted: how many of the spares come before each tensor.
    std::vector<std::uint64_t> before(order.size());
    std::uniform_int_distribution<std::uint64_t> anywhere(0, spares);
    std::generate(before.begin(), before.end(), [&] { return anywhere(random); });
    std::sort(before.begin(), before.end());
    const JobTensor& like = wanted.back();
    std::uint64_t added = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      add_spares(mesh_, before[i] - added, like.shape, like.dtype);
      added = before[i];
      tensors_[order[i]] = std::move(job_.place(mesh_, std::span(order).subspan(i, 1)).front());
    }
    add_spares(mesh_, spares - added, like.shape, like.dtype);
  }
  arguments_.assign(tensors_.begin(), tensors_.end());
}

void Product::prepare() {
  const Rounds::Preparation preparation = rounds_->next();
  const auto write = [&](std::size_t at, std::span<const std::byte> bytes) {
    const StackedDeviceTensor& tensor = tensors_[at];
    mesh_.upload(tensor, HostView(bytes.data(), tensor.dtype(), tensor.shape()));
  };
  write(preparation.changed_tensor, preparation.changed);
  write(preparation.output_tensor, preparation.poison);
  output_ = preparation.output_tensor;
  change_something();
}

void Product::change_something() {
  switch (options_.between) {
    case Between::nothing:
      return;
    case Between::free:
      mesh_.free(mesh_.alloc_stacked({job_.ranks(), 1}, DType::f32));
      return;
    case Between::rotate:
      std::rotate(arguments_.begin(), arguments_.begin() + 1, arguments_.end() - 1);
      return;
  }
}

const RoundTimes& Product::run_round() {
  const MeshStats before = mesh_.stats();
  const std::uint64_t allocations_before = allocations_of_this_thread();
  const std::int64_t begin = base::now_ns();
  const Run run = mesh_.submit(program_, arguments_);
  const std::int64_t submitted = base::now_ns();
  const std::uint64_t allocations = allocations_of_this_thread() - allocations_before;
  const bool finished = run.wait_for(options_.limit);
  const std::int64_t done = base::now_ns();
  if (!finished) {
    throw Error(ErrorCode::deadline_exceeded,
                fmt::format("run {} has not finished within {:.3g} s", run.dispatch_id(),
                            std::chrono::duration<double>(options_.limit).count()));
  }
  count(before, mesh_.stats(), allocations);
  times_.submit_us = static_cast<double>(submitted - begin) * kMicro;
  times_.wait_us = static_cast<double>(done - submitted) * kMicro;
  times_.total_us = static_cast<double>(done - begin) * kMicro;
  const RunReport report = run.report();
  times_.entry_spread_us = report.entry_spread_us;
  for (const RankReport& rank : report.ranks) {
    times_.entry_us[static_cast<std::size_t>(rank.rank)] = rank.entry_us;
  }
  return times_;
}

void Product::count(const MeshStats& before, const MeshStats& after, std::uint64_t allocations) {
  if (!counting_) return;
  ++counters_.submits;
  counters_.descriptors_built += after.descriptors_built - before.descriptors_built;
  counters_.allocations += allocations;
  counters_.table_visits += after.table_visits - before.table_visits;
  counters_.bytes_written += after.bytes_written - before.bytes_written;
  counters_.wakes += after.wakes - before.wakes;
}

std::optional<Mismatch> Product::verify() {
  if (checked_.empty()) return std::nullopt;
  const StackedDeviceTensor& output = tensors_[output_];
  outputs_.resize(output.size_bytes());
  mesh_.download(output, MutableHostView(outputs_.data(), output.dtype(), output.shape()));
  return rounds_->check(outputs_, checked_);
}

}  // namespace rankcast::bench
