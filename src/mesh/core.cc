#include "mesh/core.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/process.h"

namespace rankcast::detail {

using base::failure;
using base::Status;
using base::throw_error;
using base::throw_if_failed;
using base::value_or_throw;

/// The program side's view of the mesh's kernels.
class MeshCore::CatalogOfRegistry final : public program::KernelCatalog {
 public:
  explicit CatalogOfRegistry(rank::KernelRegistry& registry) : registry_(registry) {}

  std::optional<program::CatalogEntry> find(std::string_view name) const override {
    const auto id = registry_.find(name);
    if (!id) return std::nullopt;
    return program::CatalogEntry{*id, &registry_.entry(*id)->abi};
  }

  std::string describe() const override {
    return fmt::format("{}", fmt::join(registry_.names(), ", "));
  }

 private:
  rank::KernelRegistry& registry_;  // borrowed from the mesh's environment, which outlives this
};

/// The program side's view of where buffers are.
class MeshCore::PlacesOfBuffers final : public program::BufferPlaces {
 public:
  explicit PlacesOfBuffers(MeshCore& core) : core_(core) {}

  base::Result<frame::BlockRef> find(const Shard& buffer, int reader) override {
    return core_.place_for(buffer, reader);
  }
  base::Result<frame::BlockRef> group_block(std::uint64_t prepare_id, int members) override {
    return core_.group_block(prepare_id, members);
  }

 private:
  MeshCore& core_;  // borrowed: it owns this
};

namespace {

std::uint64_t next_incarnation() {
  static base::Mutex mutex;
  static std::uint64_t last = 0;
  base::MutexLock lock(mutex);
  return ++last;
}

}  // namespace

std::shared_ptr<MeshCore> MeshCore::open(const MeshOptions& options) {
  const base::Deadline deadline = checked_deadline(options.startup_timeout, "startup_timeout");
  checked_deadline(options.close_timeout, "close_timeout");
  if (options.max_in_flight < 1 || options.max_in_flight > 1024) {
    throw_error(failure(ErrorCode::invalid_argument, "max_in_flight is {}; it must be 1 to 1024",
                        options.max_in_flight));
  }
  if (options.group_shared_bytes < 64 || options.group_shared_bytes > (1u << 30)) {
    throw_error(failure(ErrorCode::invalid_argument,
                        "group_shared_bytes is {}; it must be 64 to 1073741824",
                        options.group_shared_bytes));
  }
  const double spin_us = options.spin.count();
  if (std::isnan(spin_us) || spin_us < 0 || spin_us > 1e6) {
    throw_error(
        failure(ErrorCode::invalid_argument, "spin is {} us; it must be 0 to 1000000", spin_us));
  }
  const std::int64_t watch_ns = value_or_throw(mesh::Watchdog::period_ns(options.watchdog));
  auto environment = std::make_shared<rank::RankEnvironment>();
  environment->plans = value_or_throw(rank::plan_ranks(options.devices));
  for (rank::RankPlan& plan : environment->plans) {
    plan.options.run_records = static_cast<std::uint32_t>(options.max_in_flight);
    plan.options.tells_tasks = watch_ns != 0;
  }
  const int world_size = static_cast<int>(environment->plans.size());
  const link::LinkKind* kind = value_or_throw(link::find_link(options.link));

  const mesh::StoreChooser stores = value_or_throw(mesh::StoreChooser::from_environment());
  const std::string library = value_or_throw(rank::builtin_kernel_library_path());
  auto builtin = rank::KernelLibrary::open(library);
  if (!builtin) {
    // The installation's fault, or the environment's: nothing that the caller passed.
    throw_error(failure(ErrorCode::unsupported, "the built-in kernels: {}", builtin.error().text));
  }
  throw_if_failed(environment->kernels.add_library(std::move(*builtin)));

  link::LinkOptions link_options;
  link_options.world_size = world_size;
  link_options.ring_capacity = std::bit_ceil(static_cast<std::uint32_t>(options.max_in_flight) + 8);
  link_options.shared_bytes = mesh::RunTable::shared_bytes(world_size, options.max_in_flight);
  link_options.spin = link::default_spin(world_size, static_cast<std::int64_t>(spin_us * 1e3));
  link_options.rank_program = options.rank_binary;
  auto link = value_or_throw(kind->create(link_options));

  std::shared_ptr<MeshCore> core(
      new MeshCore(options, stores, watch_ns, std::move(environment), std::move(link)));
  if (Status status = core->start(deadline); !status.ok()) {
    core->abandon_start();
    if (status.code == ErrorCode::deadline_exceeded) {
      status.text =
          fmt::format("open, within {:g} s: {}", options.startup_timeout.count(), status.text);
    }
    throw_error(std::move(status));
  }
  return core;
}

MeshCore::MeshCore(const MeshOptions& options, const mesh::StoreChooser& stores,
                   std::int64_t watch_ns, std::shared_ptr<rank::RankEnvironment> environment,
                   std::unique_ptr<link::Link> link)
    : options_(options),
      world_size_(link->world_size()),
      incarnation_(next_incarnation()),
      process_(base::process_generation()),
      environment_(std::move(environment)),
      link_(std::move(link)),
      catalog_(std::make_unique<CatalogOfRegistry>(environment_->kernels)),
      places_(std::make_unique<PlacesOfBuffers>(*this)),
      lost_(world_size_, link_->can_restart_ranks()),
      watchdog_(watch_ns) {
  base::MutexLock lock(mutex_);
  stores_ = stores;
  view_.incarnation = incarnation_;
  view_.world_size = world_size_;
  view_.catalog = catalog_.get();
  view_.places = places_.get();
  for (int rank = 0; rank < world_size_; ++rank) {
    tables_.push_back(std::make_unique<memory::BufferTable>());
    if (!environment_->plans[static_cast<std::size_t>(rank)].computes) view_.idle.insert(rank);
    view_.tables.push_back(tables_.back().get());
    heaps_.push_back(std::make_unique<mesh::LinkHeap>(*link_, rank, link::Access::owner_writes,
                                                      memory::kSegmentBytes));
  }
  pending_changes_.resize(static_cast<std::size_t>(world_size_));
  runs_ = std::make_unique<mesh::RunTable>(*link_, options_.max_in_flight);
  order_ = std::make_unique<mesh::RunOrder>(*link_);
  groups_ = std::make_unique<mesh::GroupBlocks>(*link_, options_.group_shared_bytes);
}

MeshCore::~MeshCore() {
  // After a close that ran out of its budget: a rank that is stuck ends when it can.
  if (base::load_acquire(life_) != Life::closed) tell_ranks_to_stop();  // pairs: mesh_life
}

void leak(std::shared_ptr<MeshCore> core) noexcept {
  // The child has one thread, and its leak checker finds them here.
  // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): without memory the child ends
  static auto* const kKept = new std::vector<std::shared_ptr<MeshCore>>();
  kKept->push_back(std::move(core));
}

Status MeshCore::start(base::Deadline deadline) {
  mesh::Keeper::Watch watch;
  {
    base::MutexLock lock(mutex_);
    if (watchdog_.on()) watch = [this] { return this->watch(); };
  }
  auto keeper = mesh::Keeper::start(
      link_->keeper(), [this] { return keep_house(); }, link_->events_fd(),
      [this] { take_lost_ranks(); }, std::move(watch));
  if (!keeper) return std::move(keeper).error();
  keeper_ = std::move(*keeper);
  const auto main = [environment = environment_](link::RankPort& port) {
    rank::rank_main(*environment, port);
  };
  const auto hello = [environment = environment_](int rank) {
    return rank::hello_of(*environment, rank);
  };
  return link_->start({main, hello}, deadline);
}

void MeshCore::check_open() const {
  const bool same_process = process_ == base::process_generation();
  const Life life = base::load_acquire(life_);  // pairs: mesh_life
  if (life == Life::open && same_process) [[likely]] {
    return;
  }
  throw_error(
      same_process
          ? failure(ErrorCode::closed, "the mesh is closed; open another one")
          : failure(ErrorCode::closed,
                    "the mesh was opened by the parent of this forked process; open another"));
}

void MeshCore::check_rank(int rank, const char* call) const {
  if (rank < 0 || rank >= world_size_) {
    throw_error(failure(ErrorCode::invalid_argument,
                        "{}: rank {} does not exist; this mesh has ranks 0 to {}", call, rank,
                        world_size_ - 1)
                    .with_rank(rank));
  }
}

void MeshCore::check_mesh(std::uint64_t incarnation, const char* call) const {
  if (incarnation == incarnation_) return;
  throw_error(incarnation == 0
                  ? failure(ErrorCode::invalid_argument, "{}: the tensor is empty", call)
                  : failure(ErrorCode::foreign_tensor,
                            "{}: the tensor belongs to another mesh (incarnation {}, this is {})",
                            call, incarnation, incarnation_));
}

std::vector<int> MeshCore::checked_ranks(std::int64_t shard_count, std::span<const int> ranks,
                                         const char* call) const {
  std::vector<int> result(ranks.begin(), ranks.end());
  if (ranks.empty()) {
    if (shard_count > world_size_) {
      throw_error(failure(ErrorCode::invalid_argument,
                          "{}: {} shards for a mesh of {} ranks; one rank holds one shard", call,
                          shard_count, world_size_));
    }
    for (int rank = 0; rank < static_cast<int>(shard_count); ++rank) result.push_back(rank);
  }
  if (static_cast<std::int64_t>(result.size()) != shard_count) {
    throw_error(failure(ErrorCode::invalid_argument, "{}: {} shards but {} ranks are given", call,
                        shard_count, result.size()));
  }
  std::unordered_set<int> seen;
  for (const int rank : result) {
    check_rank(rank, call);
    if (!seen.insert(rank).second) {
      throw_error(failure(ErrorCode::invalid_argument,
                          "{}: rank {} is given twice; shards live on distinct ranks", call, rank)
                      .with_rank(rank));
    }
  }
  return result;
}

std::vector<RankInfo> MeshCore::ranks() const {
  check_open();
  std::vector<RankInfo> infos;
  base::MutexLock lock(mutex_);
  for (int rank = 0; rank < world_size_; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    const rank::RankPlan& plan = environment_->plans[index];
    infos.push_back({rank, plan.device, plan.description, tables_[index]->live_bytes(),
                     heaps_[index]->reserved_bytes(), link_->process_of(rank),
                     lost_.contains(rank)});
  }
  return infos;
}

MeshStats MeshCore::stats() const {
  check_open();
  base::MutexLock lock(mutex_);
  MeshStats stats = counters_;
  for (int rank = 0; rank < world_size_; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    stats.live_buffers += tables_[index]->live_buffers();
    stats.live_bytes += tables_[index]->live_bytes();
    stats.reserved_bytes += heaps_[index]->reserved_bytes();
  }
  stats.deferred_bytes = deferred_.bytes();
  stats.pinned_bytes = pins_.bytes();
  stats.runs_in_flight = runs_->in_flight().size();
  stats.wakes = base::load_relaxed(wakes_);  // relaxed: a counter for people
  return stats;
}

std::vector<DispatchRecord> MeshCore::last_dispatches(int rank) const {
  check_open();
  check_rank(rank, "last_dispatches");
  std::vector<DispatchRecord> records;
  base::MutexLock lock(mutex_);
  for (const frame::Flight& flight : frame::read_flights(runs_->flights(rank), frame::kFlights)) {
    records.push_back({flight.run, flight.tasks, flight.loads_kernels, flight.left,
                       flight.left && flight.error_code == 0, flight.entry_ns,
                       flight.left ? flight.exit_ns : 0});
  }
  return records;
}

void MeshCore::register_kernel(std::string_view name, KernelFunction function) {
  check_open();
  if (!link_->shares_host_memory()) {
    throw_error(failure(ErrorCode::unsupported,
                        "register_kernel: on link '{}' ranks cannot call a function of this "
                        "process; put '{}' into a "
                        "library and use load_kernels",
                        link_->name(), name));
  }
  throw_if_failed(environment_->kernels.add_function(name, std::move(function)));
}

std::vector<std::string> MeshCore::kernels() const {
  check_open();
  return environment_->kernels.names();
}

}  // namespace rankcast::detail
