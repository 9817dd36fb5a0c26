// Kernel libraries, on the host first and then on every rank.
//
// The host checks the library and claims ids for its kernels. Where ranks are processes a record
// tells each to load the very file, by its digest, at these ids. Only when all have it does anybody
// find its kernels; else the registry is as it was, and the ids are never used again. A rank that
// starts later is told by its hello; loading and restarting take turns.
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "mesh/core.h"

namespace rankcast::detail {

using base::throw_if_failed;
using base::value_or_throw;

void MeshCore::load_kernels(const std::string& path) {
  check_open();
  std::error_code error;
  const std::filesystem::path file = std::filesystem::absolute(path, error);
  auto library = value_or_throw(rank::KernelLibrary::open(path.empty() ? path : file.string()));
  if (link_->shares_host_memory()) {
    throw_if_failed(environment_->kernels.add_library(std::move(library)));
    return;
  }
  check_not_orchestrating("load_kernels");
  const std::scoped_lock loader(lifecycle_);
  check_open();
  const rank::LibraryPlace place = value_or_throw(environment_->kernels.claim(library));
  load_on_ranks(place);
  throw_if_failed(environment_->kernels.add_library_at(std::move(library), place.first_kernel));
}

void MeshCore::load_on_ranks(const rank::LibraryPlace& place) {
  frame::LibraryRecord record;
  std::memcpy(record.digest, place.digest.data(), sizeof(record.digest));
  record.first_kernel = place.first_kernel;
  record.kernel_count = place.kernel_count;
  record.path = {0, static_cast<std::uint32_t>(place.path.size())};
  frame::SideDraft side;
  side.libraries = {&record, 1};
  side.text = place.path;

  const std::uint64_t epoch = base::load_acquire(epoch_);  // pairs: mesh_epoch
  graph::RunDraft draft(world_size_);
  {
    base::MutexLock lock(mutex_);
    for (int rank = 0; rank < world_size_; ++rank) {
      if (!lost_.contains(rank)) draft.lane(rank);
    }
  }
  if (draft.used.empty()) return;
  RunState* state = reserve(draft, base::now_ns());
  state->is_transfer = true;  // its times tell nothing of stores
  state->libraries = &side;
  write_frames(draft, *state);
  publish(draft, *state, epoch, [] { return base::Status(); }, [](MeshStats&) {});
  wait_and_drop(state);
}

}  // namespace rankcast::detail
