// The public handle: every call goes to the core.
#include "rankcast/mesh.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "mesh/core.h"

namespace rankcast {

Mesh Mesh::open(const MeshOptions& options) { return Mesh(detail::MeshCore::open(options)); }

Mesh::Mesh(std::shared_ptr<detail::MeshCore> core) noexcept : core_(std::move(core)) {}

Mesh::Mesh(Mesh&& other) noexcept = default;

Mesh& Mesh::operator=(Mesh&& other) noexcept {
  std::swap(core_, other.core_);
  return *this;
}

Mesh::~Mesh() {
  if (core_ == nullptr) return;
  if (core_->is_forked()) {
    detail::leak(std::move(core_));
    return;
  }
  try {
    core_->close();
  } catch (const std::exception& error) {
    base::log_error("mesh: {}; what its ranks use is kept until they end", error.what());
  }
}

detail::MeshCore& Mesh::core() const {
  if (core_ == nullptr) {
    base::throw_error(
        base::failure(ErrorCode::closed, "this Mesh was moved from; use the one it was moved to"));
  }
  return *core_;
}

int Mesh::world_size() const {
  core().check_open();
  return core().world_size();
}
std::vector<RankInfo> Mesh::ranks() const { return core().ranks(); }
MeshStats Mesh::stats() const { return core().stats(); }
std::vector<DispatchRecord> Mesh::last_dispatches(int rank) const {
  return core().last_dispatches(rank);
}

DeviceTensor Mesh::alloc(int rank, const Shape& shape, DType dtype) {
  return core().alloc(rank, shape, dtype);
}

StackedDeviceTensor Mesh::alloc_stacked(const Shape& shape, DType dtype,
                                        std::span<const int> ranks) {
  return core().alloc_stacked(shape, dtype, ranks);
}

namespace {

/// Fills a tensor that was just allocated; frees it when that fails.
template <class Tensor, class Fill>
Tensor filled(detail::MeshCore& core, Tensor tensor, Fill&& fill) {
  try {
    fill(tensor);
  } catch (...) {
    core.free(tensor);
    throw;
  }
  return tensor;
}

}  // namespace

DeviceTensor Mesh::alloc(int rank, const HostView& view) {
  return filled(core(), core().alloc(rank, view.shape(), view.dtype()),
                [&](const DeviceTensor& tensor) { core().upload(tensor, view); });
}

StackedDeviceTensor Mesh::alloc_stacked(const HostView& view, std::span<const int> ranks) {
  return filled(core(), core().alloc_stacked(view.shape(), view.dtype(), ranks),
                [&](const StackedDeviceTensor& tensor) { core().upload(tensor, view); });
}

StackedDeviceTensor Mesh::alloc_replicated(const HostView& view, std::span<const int> ranks) {
  const std::size_t count =
      ranks.empty() ? static_cast<std::size_t>(core().world_size()) : ranks.size();
  return filled(core(),
                core().alloc_stacked(view.shape().prepended(static_cast<std::int64_t>(count)),
                                     view.dtype(), ranks),
                [&](const StackedDeviceTensor& tensor) { core().upload_replicated(tensor, view); });
}

void Mesh::upload(const DeviceTensor& tensor, const HostView& view) { core().upload(tensor, view); }
void Mesh::upload(const StackedDeviceTensor& tensor, const HostView& view) {
  core().upload(tensor, view);
}
void Mesh::download(const DeviceTensor& tensor, const MutableHostView& view) {
  core().download(tensor, view);
}
void Mesh::download(const StackedDeviceTensor& tensor, const MutableHostView& view) {
  core().download(tensor, view);
}

ResidentView Mesh::view(const DeviceTensor& tensor) { return core().view(tensor); }

void Mesh::free(const DeviceTensor& tensor) { core().free(tensor); }
void Mesh::free(const StackedDeviceTensor& tensor) { core().free(tensor); }

void Mesh::load_kernels(const std::string& path) { core().load_kernels(path); }
void Mesh::register_kernel(std::string_view name, KernelFunction function) {
  core().register_kernel(name, std::move(function));
}
std::vector<std::string> Mesh::kernels() const { return core().kernels(); }

Run Mesh::submit(const Program& program, std::span<const Argument> arguments) {
  return core().submit(program, arguments);
}

void Mesh::restart_rank(int rank) { core().restart_rank(rank); }

CloseReport Mesh::close() { return core_ == nullptr ? CloseReport{} : core_->close(); }
CloseReport Mesh::close(std::chrono::duration<double> budget) {
  return core_ == nullptr ? CloseReport{} : core_->close(budget);
}

}  // namespace rankcast
