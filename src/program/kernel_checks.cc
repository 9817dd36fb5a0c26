#include "program/kernel_checks.h"

#include <cstring>

#include "tensor/layout.h"

namespace rankcast::program {
namespace {

using frame::ArgumentRecord;

// The same for equal kernels, shapes, dtypes and strides: whatever the scalars, and in every
// orchestration of a mesh. Should two that differ meet in one number, the rank sees it and prepares
// anew.
std::uint64_t prepare_id_of(std::uint32_t kernel, std::span<const ArgumentRecord> arguments,
                            std::span<const frame::LayoutRecord> layouts) noexcept {
  constexpr std::uint64_t kMultiplier = 0x9e3779b97f4a7c15u;
  std::uint64_t hash = (std::uint64_t{kernel} + 1) * kMultiplier;
  for (const ArgumentRecord& argument : arguments) {
    hash = (hash ^ tensor::layout_hash(layouts[argument.layout])) * kMultiplier;
    hash ^= hash >> 32;
  }
  return hash == 0 ? 1 : hash;
}

}  // namespace

base::Status KernelChecks::check(const NamedKernel& kernel, int rank, const frame::TaskRecord& task,
                                 const frame::FrameDraft& lane,
                                 std::span<frame::LayoutRecord> layouts,
                                 std::span<const std::uint32_t> signature,
                                 std::uint64_t* prepare_id) {
  const CheckMemo::Call remembered{kernel.entry.id, signature};
  *prepare_id = memo_.find(remembered);
  const bool met = *prepare_id != 0;
  if (met && task.scalars.count == 0) [[likely]] {
    return {};
  }
  if (base::Status status = ask(kernel, rank, task, lane, layouts); !status.ok()) return status;
  if (met) return {};
  *prepare_id = prepare_id_of(
      kernel.entry.id, lane.arguments.span().subspan(task.arguments.first, task.arguments.count),
      layouts);
  memo_.add(remembered, *prepare_id);
  return {};
}

base::Status KernelChecks::ask(const NamedKernel& kernel, int rank, const frame::TaskRecord& task,
                               const frame::FrameDraft& lane,
                               std::span<frame::LayoutRecord> layouts) {
  if (kernel.entry.kernel->check == nullptr) return {};
  tensors_.clear();
  tags_.clear();
  scalars_.clear();
  for (const ArgumentRecord& argument :
       lane.arguments.span().subspan(task.arguments.first, task.arguments.count)) {
    frame::LayoutRecord& layout = layouts[argument.layout];
    tensors_.push({nullptr, DLDevice{kDLCPU, 0}, layout.dims, tensor::to_dl(layout.dtype),
                   layout.shape.data(), layout.strides.data(), 0});
    tags_.push(static_cast<std::uint8_t>(argument.tag));
  }
  for (const frame::ScalarRecord& scalar :
       lane.scalars.span().subspan(task.scalars.first, task.scalars.count)) {
    rankcast_scalar value{};
    value.type = static_cast<std::int32_t>(scalar.type);
    std::memcpy(&value.value, &scalar.bits, sizeof(value.value));
    scalars_.push(value);
  }
  rankcast_call call{};
  call.struct_size = sizeof(call);
  call.tensor_count = task.arguments.count;
  call.tensors = tensors_.data();
  call.tags = tags_.data();
  call.scalar_count = task.scalars.count;
  call.scalars = scalars_.data();
  rankcast_failure refused{};
  refused.argument = -1;
  if (kernel.entry.kernel->check(&call, &refused) != RANKCAST_OK) {
    refused.text[RANKCAST_FAILURE_TEXT_BYTES - 1] = '\0';
    return base::failure(ErrorCode::invalid_argument,
                         "task {} ('{}') on rank {} is refused by the kernel's check: {}",
                         task.task, kernel.name, rank, refused.text)
        .with_rank(rank)
        .with_argument(refused.argument);
  }
  return {};
}

}  // namespace rankcast::program
