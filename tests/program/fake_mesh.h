// A mesh as the program side sees it, without ranks: buffer tables and a catalog of kernels whose
// checks are counted.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "program/kernel_catalog.h"
#include "program/orchestration.h"
#include "tensor/layout.h"
#include "tensor/tensor_access.h"

namespace rankcast::program {

class FakeCatalog final : public KernelCatalog {
 public:
  FakeCatalog() {
    any_.run = [](const rankcast_kernel_context*, void*, const rankcast_call*, rankcast_failure*) {
      return RANKCAST_OK;
    };
    checked_ = any_;
    checked_.check = [](const rankcast_call* call, rankcast_failure* failure) {
      checks.fetch_add(1);
      if (call->tensor_count <= 2) return RANKCAST_OK;
      failure->argument = 2;
      std::snprintf(failure->text, sizeof(failure->text), "%u tensors are too many",
                    call->tensor_count);
      return RANKCAST_FAILED;
    };
  }

  std::optional<CatalogEntry> find(std::string_view name) const override {
    ++finds;
    if (name == "fake.any") return CatalogEntry{0, &any_};
    if (name == "fake.checked") return CatalogEntry{1, &checked_};
    return std::nullopt;
  }
  std::string describe() const override { return "fake.any, fake.checked"; }

  static inline std::atomic<int> checks{0};
  mutable int finds = 0;

 private:
  rankcast_kernel any_{};
  rankcast_kernel checked_{};
};

/// Every buffer of a rank lies in the segment of that number.
class FakePlaces final : public BufferPlaces {
 public:
  explicit FakePlaces(const std::vector<std::unique_ptr<memory::BufferTable>>& tables)
      : tables_(tables) {}
  base::Result<frame::BlockRef> find(const detail::Shard& buffer, int /*reader*/) override {
    ++finds;
    const bool live =
        tables_[static_cast<std::size_t>(buffer.rank)]->live({buffer.slot, buffer.generation});
    return frame::BlockRef{256 * buffer.slot, static_cast<std::uint32_t>(buffer.rank),
                           live ? 1u : 0u};
  }

  base::Result<frame::BlockRef> group_block(std::uint64_t /*prepare_id*/,
                                            int /*members*/) override {
    return frame::BlockRef{0, 99, 64};
  }

  int finds = 0;

 private:
  const std::vector<std::unique_ptr<memory::BufferTable>>& tables_;
};

class FakeMesh {
 public:
  explicit FakeMesh(int world_size, std::uint64_t incarnation = 1) {
    view_.incarnation = incarnation;
    view_.world_size = world_size;
    view_.catalog = &catalog_;
    view_.places = &places_;
    for (int rank = 0; rank < world_size; ++rank) {
      tables_.push_back(std::make_unique<memory::BufferTable>());
      view_.tables.push_back(tables_.back().get());
    }
  }

  DeviceTensor tensor(int rank, const Shape& shape = {4}, DType dtype = DType::f32) {
    return detail::TensorAccess::make(view_.incarnation, shard(rank), 0,
                                      tensor::contiguous_layout(dtype, shape));
  }
  /// A shard of shape `tail` on each of `ranks`.
  StackedDeviceTensor stack(const std::vector<int>& ranks, const Shape& tail = {4}) {
    std::vector<detail::Shard> shards;
    for (const int rank : ranks) shards.push_back(shard(rank));
    return detail::TensorAccess::make_stacked(view_.incarnation,
                                              tensor::contiguous_layout(DType::f32, tail),
                                              std::move(shards), view_.world_size);
  }
  void free(const DeviceTensor& tensor) {
    const BufferId id = tensor.buffer();
    tables_[static_cast<std::size_t>(id.rank)]->remove({id.slot, id.generation});
  }

  const MeshView& view() const noexcept { return view_; }
  FakeCatalog& catalog() noexcept { return catalog_; }
  FakePlaces& places() noexcept { return places_; }

 private:
  detail::Shard shard(int rank) {
    const auto key = tables_[static_cast<std::size_t>(rank)]->insert({}, 16).value();
    return {key.slot, key.generation, rank, 0};
  }

  FakeCatalog catalog_;
  std::vector<std::unique_ptr<memory::BufferTable>> tables_;
  FakePlaces places_{tables_};
  MeshView view_;
};

}  // namespace rankcast::program
