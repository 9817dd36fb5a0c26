// The user's end: programs, references to arguments, the orchestrator's door.
#include "rankcast/program.h"

#include <utility>

#include "base/status.h"
#include "program/orchestration.h"
#include "program/task_args.h"
#include "tensor/layout.h"
#include "tensor/view.h"

namespace rankcast {
namespace {

using base::failure;
using base::throw_error;
using detail::ArgumentKind;

[[noreturn]] void fail_scalar() {
  throw_error(failure(ErrorCode::invalid_argument, "the argument is a scalar, not a tensor"));
}

}  // namespace

Program::Program(std::string name, Function function)
    : name_(std::move(name)), function_(std::move(function)) {
  if (!function_) {
    throw_error(
        failure(ErrorCode::invalid_argument, "program '{}' has no orchestration function", name_));
  }
}

int Orchestrator::world_size() const noexcept { return impl_.world_size(); }

Task Orchestrator::submit(std::string_view kernel, int rank, const TaskArgs& arguments) {
  return impl_.submit_task(kernel, rank, arguments);
}

Task Orchestrator::copy(const TaskArgs& arguments) { return impl_.submit_copy(arguments); }

ArgumentRef Orchestrator::temp(int rank, const Shape& shape, DType dtype) {
  return impl_.add_temporary(rank, shape, dtype);
}

TaskGroup Orchestrator::submit_group(std::string_view kernel, std::span<const int> ranks,
                                     std::span<const TaskArgs> arguments) {
  return impl_.submit_group(kernel, ranks, arguments);
}

void Arguments::fail_index(std::size_t index) const {
  throw_error(failure(ErrorCode::invalid_argument,
                      "argument {} is asked for, but the submit has {}", index, size_));
}

void ArgumentRef::fail_shard_on(const detail::ArgumentEntry* entry, std::uint32_t shard, int rank) {
  if (!ArgumentRef(entry, 0, shard).is_whole_stack()) {
    throw_error(failure(ErrorCode::invalid_argument,
                        "shard_on({}) wants a whole stacked tensor, but the argument is {}", rank,
                        entry->kind == ArgumentKind::scalar   ? "a scalar"
                        : entry->kind == ArgumentKind::device ? "a device tensor"
                                                              : "one shard already")
                    .with_rank(rank));
  }
  throw_error(
      failure(ErrorCode::wrong_rank,
              "the stacked argument has {} shards and none on rank {}; pass one that has, or "
              "leave the rank out",
              entry->shard_count, rank)
          .with_rank(rank));
}

ArgumentRef ArgumentRef::operator[](int shard) const {
  if (!is_whole_stack() || shard < 0 || shard >= shard_count()) {
    throw_error(failure(ErrorCode::invalid_argument,
                        "shard {} is asked for, but the argument has {}", shard,
                        is_whole_stack() ? fmt::format("shards 0 to {}", shard_count() - 1)
                                         : std::string("none to choose from")));
  }
  return {entry_, submit_, static_cast<std::uint32_t>(shard)};
}

int ArgumentRef::rank() const {
  if (entry_->kind == ArgumentKind::scalar) fail_scalar();
  if (is_whole_stack()) {
    throw_error(failure(ErrorCode::invalid_argument,
                        "a whole stack has no rank of its own; choose a shard"));
  }
  return entry_->shards[chosen_shard()].rank;
}

DType ArgumentRef::dtype() const {
  if (entry_->kind == ArgumentKind::scalar) fail_scalar();
  return entry_->layout->dtype;
}

Shape ArgumentRef::shape() const {
  if (entry_->kind == ArgumentKind::scalar) fail_scalar();
  const Shape shape = tensor::layout_shape(*entry_->layout);
  return is_whole_stack() ? shape.prepended(shard_count()) : shape;
}

const detail::Layout& ArgumentRef::layout_to_view(const char* call) const {
  if (submit_ != detail::current_submit) {
    if (shard_ == detail::kTemporary) {
      throw_error(failure(ErrorCode::stale_tensor, "{}: {}", call, detail::kStaleTemporary));
    }
    throw_error(failure(ErrorCode::invalid_argument,
                        "{}: the reference is of another submit; use it in the orchestration "
                        "function that it was given to",
                        call));
  }
  if (entry_->kind == ArgumentKind::scalar) fail_scalar();
  if (is_whole_stack()) {
    throw_error(failure(ErrorCode::invalid_argument,
                        "{}: a whole stack of {} shards; say which shard by shard_on(rank) or an "
                        "index",
                        call, shard_count()));
  }
  return *entry_->layout;
}

ArgumentRef ArgumentRef::add_view(const tensor::View& view) const {
  const std::uint32_t mark =
      shard_ == detail::kTemporary ? detail::kTemporary : detail::kWholeStack;
  return {&detail::current_views->add(*entry_, chosen_shard(), view), submit_, mark};
}

ArgumentRef ArgumentRef::slice(int dim, std::int64_t begin, std::int64_t end,
                               std::int64_t step) const {
  const tensor::View view = tensor::slice_of(layout_to_view("slice"), dim, begin, end, step);
  return add_view(view);
}

ArgumentRef ArgumentRef::transpose(int a, int b) const {
  const tensor::View view = tensor::transpose_of(layout_to_view("transpose"), a, b);
  return add_view(view);
}

ArgumentRef ArgumentRef::strided(const Shape& shape, std::span<const std::int64_t> strides,
                                 std::int64_t offset) const {
  const tensor::View view = tensor::strided_of(layout_to_view("strided"), shape, strides, offset);
  return add_view(view);
}

Scalar ArgumentRef::scalar() const {
  if (entry_->kind != ArgumentKind::scalar) {
    throw_error(failure(ErrorCode::invalid_argument, "the argument is a tensor, not a scalar"));
  }
  return *entry_->scalar;
}

}  // namespace rankcast
