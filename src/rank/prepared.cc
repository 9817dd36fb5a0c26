#include "rank/prepared.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace rankcast::rank {

PreparedKernels::~PreparedKernels() {
  for (auto& [id, entry] : entries_) release(entry);
}

void PreparedKernels::release(Entry& entry) noexcept {
  if (entry.kernel->release != nullptr) entry.kernel->release(entry.state);
}

void PreparedKernels::evict_one() {
  auto oldest = std::min_element(
      entries_.begin(), entries_.end(),
      [](const auto& a, const auto& b) { return a.second.last_use < b.second.last_use; });
  release(oldest->second);
  entries_.erase(oldest);
}

base::Status PreparedKernels::grow_workspace(std::uint64_t bytes) {
  if (bytes <= workspace_.bytes()) return {};
  auto segment = base::Segment::reserve(bytes);
  if (!segment) return std::move(segment).error();
  workspace_ = std::move(*segment);
  return {};
}

base::Result<Preparation> PreparedKernels::get(std::uint64_t prepare_id,
                                               const rankcast_kernel& kernel,
                                               const rankcast_kernel_context& context,
                                               const rankcast_call& call,
                                               std::span<const frame::LayoutRecord> layouts,
                                               std::int32_t* failed_argument) {
  auto found = entries_.find(prepare_id);
  if (found != entries_.end() &&
      (found->second.kernel != &kernel || !std::ranges::equal(found->second.layouts, layouts))) {
    release(found->second);
    entries_.erase(found);
    found = entries_.end();
  }
  if (found == entries_.end()) {
    auto made = make(prepare_id, kernel, context, call, failed_argument);
    if (!made) return tl::unexpected(std::move(made).error());
    (*made)->layouts.assign(layouts.begin(), layouts.end());
    return use(**made);
  }
  return use(found->second);
}

Preparation PreparedKernels::use(Entry& entry) noexcept {
  entry.last_use = ++uses_;
  return Preparation{entry.state, entry.workspace_bytes == 0 ? nullptr : workspace_.base(),
                     entry.workspace_bytes, entry.shared_bytes};
}

// There is none of this id.
base::Result<PreparedKernels::Entry*> PreparedKernels::make(std::uint64_t prepare_id,
                                                            const rankcast_kernel& kernel,
                                                            const rankcast_kernel_context& context,
                                                            const rankcast_call& call,
                                                            std::int32_t* failed_argument) {
  // What is prepared serves every call of these layouts: there are no data yet.
  std::vector<DLTensor> tensors(call.tensors, call.tensors + call.tensor_count);
  for (DLTensor& tensor : tensors) tensor.data = nullptr;
  rankcast_call without_data = call;
  without_data.tensors = tensors.data();
  rankcast_preparation preparation{};
  preparation.struct_size = sizeof(preparation);
  rankcast_failure failure{};
  failure.argument = -1;
  if (kernel.prepare(&context, &without_data, &preparation, &failure) != RANKCAST_OK) {
    failure.text[RANKCAST_FAILURE_TEXT_BYTES - 1] = '\0';
    *failed_argument = failure.argument;
    return base::unexpected_failure(ErrorCode::task_failed, "prepare: {}", failure.text);
  }
  Entry entry;
  entry.kernel = &kernel;
  entry.state = preparation.state;
  entry.workspace_bytes = preparation.workspace_bytes;
  entry.shared_bytes = preparation.shared_bytes;
  if (base::Status status = grow_workspace(entry.workspace_bytes); !status.ok()) {
    release(entry);
    return tl::unexpected(std::move(status));
  }
  if (entries_.size() == kMax) evict_one();
  return &entries_.emplace(prepare_id, std::move(entry)).first->second;
}

bool PreparedKernels::has_group(std::uint64_t prepare_id,
                                const frame::BlockRef& shared) const noexcept {
  const auto found = entries_.find(prepare_id);
  return found != entries_.end() && found->second.shared.segment == shared.segment &&
         found->second.shared.offset == shared.offset && found->second.shared.bytes == shared.bytes;
}

void PreparedKernels::forget_group(std::uint64_t prepare_id) noexcept {
  const auto found = entries_.find(prepare_id);
  if (found == entries_.end()) return;
  release(found->second);
  entries_.erase(found);
}

base::Result<Preparation> PreparedKernels::get_group(const frame::GroupRecord& group, bool anew,
                                                     const rankcast_kernel& kernel,
                                                     const rankcast_kernel_context& context,
                                                     const rankcast_call& call,
                                                     std::int32_t* failed_argument) {
  auto found = entries_.find(group.prepare_id);
  if (!anew && found != entries_.end()) return use(found->second);
  if (found != entries_.end()) {
    release(found->second);
    entries_.erase(found);
  }
  auto made = make(group.prepare_id, kernel, context, call, failed_argument);
  if (!made) return tl::unexpected(std::move(made).error());
  Entry& entry = **made;
  if (entry.shared_bytes > group.shared.bytes) {
    const std::uint64_t wanted = entry.shared_bytes;
    release(entry);
    entries_.erase(group.prepare_id);
    return base::unexpected_failure(
        ErrorCode::out_of_memory,
        "the kernel wants {} bytes of shared memory for each member of its group, this mesh gives "
        "{}; raise MeshOptions::group_shared_bytes",
        wanted, group.shared.bytes);
  }
  entry.shared = group.shared;
  return use(entry);
}

}  // namespace rankcast::rank
