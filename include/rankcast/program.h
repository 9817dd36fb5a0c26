// What a user submits: a program, the arguments it is given, and the tasks that its orchestration
// function makes.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "rankcast/api.h"
#include "rankcast/dtype.h"
#include "rankcast/shape.h"
#include "rankcast/tensor.h"

namespace rankcast {

namespace frame {
struct ScalarRecord;
}
namespace tensor {
struct View;
}

class Orchestrator;

/// A scalar as kernels see it: a 64-bit integer or a double. An unsigned integer of 2^63 or more
/// keeps its bits, so that it is a negative one.
class Scalar {
 public:
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Scalar(T value) noexcept : value_(static_cast<std::int64_t>(value)) {}
  template <std::floating_point T>
  Scalar(T value) noexcept : value_(static_cast<double>(value)) {}

  bool is_integer() const noexcept { return std::holds_alternative<std::int64_t>(value_); }
  /// The value. A double is cut to an integer; beyond the range of 64 bits it is the nearest one
  /// there, and what is no number is 0.
  std::int64_t as_i64() const noexcept {
    if (is_integer()) return *std::get_if<std::int64_t>(&value_);
    constexpr double kLimit = 9223372036854775808.0;  // 2^63
    const double real = *std::get_if<double>(&value_);
    if (real >= kLimit) return std::numeric_limits<std::int64_t>::max();
    if (real < -kLimit) return std::numeric_limits<std::int64_t>::min();
    return real == real ? static_cast<std::int64_t>(real) : 0;
  }
  /// The value, converted when it is an integer.
  double as_f64() const noexcept {
    return is_integer() ? static_cast<double>(*std::get_if<std::int64_t>(&value_))
                        : *std::get_if<double>(&value_);
  }

 private:
  std::variant<std::int64_t, double> value_;
};

/// One argument of a submit: a device tensor, a stacked device tensor, or a scalar. Nothing else
/// converts to it, bool and pointers least of all. Holds a copy of the handle.
class RANKCAST_API Argument {
 public:
  Argument(const DeviceTensor& tensor) : value_(tensor) {}
  Argument(const StackedDeviceTensor& tensor) : value_(tensor) {}
  template <class T>
    requires((std::integral<T> && !std::same_as<T, bool>) || std::floating_point<T> ||
             std::same_as<T, Scalar>)
  Argument(T value) : value_(Scalar(value)) {}

  const std::variant<DeviceTensor, StackedDeviceTensor, Scalar>& value() const noexcept {
    return value_;
  }

 private:
  std::variant<DeviceTensor, StackedDeviceTensor, Scalar> value_;
};

/// How a task touches an argument. `no_dep` is left out of ordering, never out of the checks.
enum class Tag : std::uint8_t { in = 1, out = 2, inout = 3, no_dep = 4 };

namespace detail {

enum class ArgumentKind : std::uint8_t { device, stacked, scalar };

/// No shard in particular.
inline constexpr std::uint32_t kWholeStack = 0xffffffffu;
/// No argument of the submit: a tensor that the program itself holds.
inline constexpr std::uint32_t kOwnTensor = 0xffffffffu;
/// A reference to an argument of another submit.
inline constexpr std::uint32_t kStrange = 0xfffffffeu;
/// In place of a shard: a temporary, or a view of one.
inline constexpr std::uint32_t kTemporary = 0xfffffffdu;

/// One argument of a submit, looked up once and then referred to by every task that names it.
struct ArgumentEntry {
  const Shard* shards = nullptr;                // stacked: one a shard; device: one
  const std::int32_t* shard_of_rank = nullptr;  // stacked only
  std::uint32_t shard_count = 0;
  std::uint32_t whole = kWholeStack;  // the shard that the argument itself stands for: device only
  std::uint64_t offset_bytes = 0;
  std::uint32_t layout_index = 0;  // in the layouts of this run's frames
  std::uint32_t number = 0;        // among the arguments of the submit; a view's is beyond them
  std::uint32_t layout_id = 0;     // among the layouts that the submitting context remembers
  std::uint16_t rank_count = 0;    // length of shard_of_rank
  ArgumentKind kind = ArgumentKind::scalar;
  bool changed = false;  // another tensor than in the submit before, of the same layout
  const Layout* layout = nullptr;
  const Scalar* scalar = nullptr;  // scalar only
};
static_assert(sizeof(ArgumentEntry) == 64);

/// One argument of a task as `TaskArgs` keeps it.
struct TaskArgument {
  // Of the submit's argument, or of a view or temporary, or kOwnTensor, or kStrange.
  std::uint32_t number;
  // Of it, or kWholeStack, or kTemporary; with kOwnTensor which of the program's tensors.
  std::uint32_t shard;
  std::uint32_t tag;  // a Tag; a whole word, so that equal arguments are equal bytes
};
static_assert(sizeof(TaskArgument) == 12);

struct TaskArgsStorage;
class OrchestratorImpl;
class TaskEncoder;

}  // namespace detail

/// A task that was submitted, within the orchestration function that submitted it.
class Task {
 public:
  Task(std::uint32_t index, std::uint64_t submit) noexcept : submit_(submit), index_(index) {}
  /// Its number in the run, from 0 in the order of submission.
  std::uint32_t index() const noexcept { return index_; }

 private:
  friend class TaskArgs;

  std::uint64_t submit_;  // whose task it is
  std::uint32_t index_;
};

/// Refers to an argument of the submit at hand, to one shard of it, or to a temporary. Valid while
/// the orchestration function runs; a task of any other submit refuses it as `invalid_argument`, a
/// temporary as `stale_tensor`.
class RANKCAST_API ArgumentRef {
 public:
  ArgumentRef(const detail::ArgumentEntry* entry, std::uint64_t submit) noexcept
      : ArgumentRef(entry, submit, detail::kWholeStack) {}

  /// The shard of a stacked argument that lives on `rank`. Throws `Error(wrong_rank)` when there is
  /// none and `Error(invalid_argument)` when the argument is not stacked.
  ArgumentRef shard_on(int rank) const {
    if (static_cast<std::uint32_t>(rank) < entry_->rank_count && shard_ == detail::kWholeStack)
        [[likely]] {
      const std::int32_t shard = entry_->shard_of_rank[rank];
      if (shard >= 0) [[likely]] {
        return {entry_, submit_, static_cast<std::uint32_t>(shard)};
      }
    }
    fail_shard_on(entry_, shard_, rank);
  }

  /// Shard number `shard` of a stacked argument. Throws `Error(invalid_argument)` when there is
  /// none.
  ArgumentRef operator[](int shard) const;

  /// Number of shards; 1 for a device tensor, 0 for a scalar.
  int shard_count() const noexcept { return static_cast<int>(entry_->shard_count); }
  /// The rank that holds the tensor or shard. Throws `Error(invalid_argument)` for a whole stack or
  /// a scalar.
  int rank() const;
  /// Throws `Error(invalid_argument)` for a scalar.
  DType dtype() const;
  /// Of the tensor or shard; `[B, tail...]` for a whole stack. Throws `Error(invalid_argument)` for
  /// a scalar.
  Shape shape() const;
  /// The value of a scalar argument. Throws `Error(invalid_argument)` for a tensor.
  Scalar scalar() const;

  // Views of the tensor or shard, as DeviceTensor has them; each is a reference as well. They take
  // memory that is kept between submits. Equal views in the next submit repeat. They throw
  // `Error(invalid_argument)` also for a scalar, a whole stack, and a reference of another submit.

  ArgumentRef slice(int dim, std::int64_t begin, std::int64_t end, std::int64_t step = 1) const;
  ArgumentRef transpose(int a, int b) const;
  ArgumentRef strided(const Shape& shape, std::span<const std::int64_t> strides,
                      std::int64_t offset = 0) const;
  ArgumentRef strided(const Shape& shape, std::initializer_list<std::int64_t> strides,
                      std::int64_t offset = 0) const {
    return strided(shape, std::span<const std::int64_t>(strides.begin(), strides.size()), offset);
  }

 private:
  friend class TaskArgs;
  friend class detail::OrchestratorImpl;
  ArgumentRef(const detail::ArgumentEntry* entry, std::uint64_t submit,
              std::uint32_t shard) noexcept
      : entry_(entry), submit_(submit), shard_(shard) {}

  // By value: a reference whose address is never taken lives in registers.
  [[noreturn]] static void fail_shard_on(const detail::ArgumentEntry* entry, std::uint32_t shard,
                                         int rank);
  const detail::Layout& layout_to_view(const char* call) const;
  ArgumentRef add_view(const tensor::View& view) const;
  std::uint32_t chosen_shard() const noexcept {
    return shard_ == detail::kTemporary ? entry_->whole : named_shard();
  }
  std::uint32_t named_shard() const noexcept {
    return shard_ == detail::kWholeStack ? entry_->whole : shard_;
  }
  bool is_whole_stack() const noexcept {
    return entry_->kind == detail::ArgumentKind::stacked && shard_ == detail::kWholeStack;
  }

  const detail::ArgumentEntry* entry_;  // borrowed from the submit, which outlives the function
  std::uint64_t submit_;                // whose argument it is
  std::uint32_t shard_;                 // kWholeStack for the argument as it was given
};

/// The arguments of the submit at hand, in the order in which they were given.
class RANKCAST_API Arguments {
 public:
  Arguments(const detail::ArgumentEntry* entries, std::size_t size, std::uint64_t submit) noexcept
      : entries_(entries), size_(size), submit_(submit) {}

  std::size_t size() const noexcept { return size_; }
  /// Throws `Error(invalid_argument)` for an index out of range.
  ArgumentRef operator[](std::size_t index) const {
    if (index >= size_) [[unlikely]] {
      fail_index(index);
    }
    return {entries_ + index, submit_};
  }

 private:
  [[noreturn]] void fail_index(std::size_t index) const;

  const detail::ArgumentEntry* entries_;
  std::size_t size_;
  std::uint64_t submit_;
};

class TaskGroup;

/// The arguments of one task: tensors with their tags, in the order that the kernel documents, then
/// scalars.
///
/// Takes its memory from an arena that the thread keeps between submits: building one allocates
/// nothing once it has grown. Calls chain: `TaskArgs{}.in(a).in(b).out(c)`.
///
/// One that refers to arguments of a submit is made inside that submit's orchestration function,
/// and is `invalid_argument` to another; one that holds tensors and scalars alone may be kept.
class RANKCAST_API TaskArgs {
 public:
  TaskArgs();
  ~TaskArgs();
  TaskArgs(TaskArgs&& other) noexcept;
  TaskArgs& operator=(TaskArgs&& other) noexcept;
  TaskArgs(const TaskArgs&) = delete;
  TaskArgs& operator=(const TaskArgs&) = delete;

  TaskArgs& in(const ArgumentRef& argument) { return add(argument, Tag::in); }
  TaskArgs& out(const ArgumentRef& argument) { return add(argument, Tag::out); }
  TaskArgs& inout(const ArgumentRef& argument) { return add(argument, Tag::inout); }
  TaskArgs& no_dep(const ArgumentRef& argument) { return add(argument, Tag::no_dep); }

  /// Tensors that the program holds itself instead of being given them.
  TaskArgs& in(const DeviceTensor& tensor) { return add(tensor, Tag::in); }
  TaskArgs& out(const DeviceTensor& tensor) { return add(tensor, Tag::out); }
  TaskArgs& inout(const DeviceTensor& tensor) { return add(tensor, Tag::inout); }
  TaskArgs& no_dep(const DeviceTensor& tensor) { return add(tensor, Tag::no_dep); }

  /// A scalar of the kernel.
  TaskArgs& scalar(Scalar value);

  /// The task starts after `task`, on whatever rank that runs, and only if that ended well.
  TaskArgs& after(const Task& task);
  /// The same after every member of a group.
  TaskArgs& after(const TaskGroup& group);

  std::size_t tensor_count() const noexcept { return static_cast<std::size_t>(end_ - begin_); }

 private:
  friend class detail::OrchestratorImpl;
  friend class detail::TaskEncoder;

  TaskArgs& add(const ArgumentRef& argument, Tag tag) {
    if (end_ == limit_) [[unlikely]] {
      grow();
    }
    // A reference of another submit may point to what is gone.
    if (argument.submit_ != submit_) [[unlikely]] {
      *end_++ = {detail::kStrange, argument.shard_, static_cast<std::uint32_t>(tag)};
      return *this;
    }
    *end_++ = {argument.entry_->number, argument.named_shard(), static_cast<std::uint32_t>(tag)};
    return *this;
  }
  TaskArgs& add(const DeviceTensor& tensor, Tag tag);
  void grow();

  std::span<const detail::TaskArgument> tensors() const noexcept { return {begin_, end_}; }
  std::span<const frame::ScalarRecord> scalars() const noexcept;
  std::span<const std::uint32_t> afters() const noexcept;
  std::size_t own_tensor_count() const noexcept;
  const DeviceTensor& own_tensor(std::uint32_t number) const noexcept;

  // In storage_.
  detail::TaskArgument* begin_ = nullptr;
  detail::TaskArgument* end_ = nullptr;
  detail::TaskArgument* limit_ = nullptr;
  std::uint64_t submit_;  // in whose orchestration function it was made; 0: in none
  std::unique_ptr<detail::TaskArgsStorage> storage_;
};

/// Tasks that start together or not at all, within the orchestration function that submitted them.
class TaskGroup {
 public:
  TaskGroup(std::uint32_t first, std::uint32_t size, std::uint64_t submit) noexcept
      : submit_(submit), first_(first), size_(size) {}
  /// Number of members.
  int size() const noexcept { return static_cast<int>(size_); }
  /// Member `index`, from 0 in the order in which they were given.
  Task operator[](int index) const noexcept {
    return {first_ + static_cast<std::uint32_t>(index), submit_};
  }

 private:
  std::uint64_t submit_;
  std::uint32_t first_;
  std::uint32_t size_;
};

/// What an orchestration function is given: it submits tasks to ranks. Nothing starts before the
/// function has returned and every task has passed its checks. Used by the calling thread alone,
/// valid while the function runs.
class RANKCAST_API Orchestrator {
 public:
  explicit Orchestrator(detail::OrchestratorImpl& impl) noexcept : impl_(impl) {}
  Orchestrator(const Orchestrator&) = delete;
  Orchestrator& operator=(const Orchestrator&) = delete;

  int world_size() const noexcept;

  /// Memory on `rank` that this run has while it is in flight: a contiguous tensor, aligned to 128
  /// bytes. Tasks and copies use it as they use an argument, and by views; the first of them to
  /// name it writes it. What it holds at first is undefined. Temporaries of which one is no longer
  /// used when the other is first may share memory: a run takes one block a rank, `heap_bytes` of
  /// its report. After the function has returned, a task that names it is `stale_tensor`.
  ///
  /// Throws `Error(invalid_argument)` for a rank out of range or a shape whose bytes overflow. The
  /// submit is `invalid_argument` when a task reads one before any task has written it, and
  /// `out_of_memory` when a rank has no room for the block.
  ArgumentRef temp(int rank, const Shape& shape, DType dtype);

  /// Adds one launch of `kernel` on `rank`.
  ///
  /// A task that reads bytes which an earlier one writes needs it: it starts when that one has
  /// ended, and only if it ended well. One that writes bytes which an earlier one reads or writes
  /// starts when that one has ended, however. So says each argument's tag; `no_dep` says nothing.
  /// Tasks of one rank run in the order of submission; those of different ranks have no order but
  /// this one and that of `TaskArgs::after`. Of a task that does not start the outputs are
  /// undefined.
  ///
  /// Two arguments of one task that share a byte, one of them written, are `invalid_argument` to
  /// the submit, as soon as the function has returned.
  ///
  /// Throws `Error` naming the argument, the task and the rank: `invalid_argument` for a kernel
  /// nobody has, a rank out of range, an empty tensor, a whole stack, a scalar in a tensor's place,
  /// or arguments that the kernel's check refuses; `stale_tensor`, `foreign_tensor`, `wrong_rank`
  /// for a tensor that this task may not use. The run is then refused as a whole, also when the
  /// orchestration function swallows the exception.
  Task submit(std::string_view kernel, int rank, const TaskArgs& arguments);

  /// Adds a copy of one tensor into another of equal dtype and shape, which may lie on another
  /// rank: the rank that holds the destination does it. `copy(destination, source)`; with `after`:
  /// `copy(TaskArgs{}.out(destination).in(source).after(task))`. Throws as `submit` does.
  template <class Destination, class Source>
  Task copy(const Destination& destination, const Source& source) {
    return copy(TaskArgs{}.out(destination).in(source));
  }
  Task copy(const TaskArgs& arguments);

  /// Adds one launch of `kernel` on each of `ranks`, all distinct, with the arguments of the same
  /// number: a group. Its members may meet each other while they run (`rankcast_kernel_context`:
  /// members, shared memory, abort word). They start together or not at all: when one of them may
  /// not start, none does. A member that fails, or whose rank dies, makes the others' abort words
  /// set. Groups start on each rank in the order of submission. Throws as `submit` does.
  TaskGroup submit_group(std::string_view kernel, std::span<const int> ranks,
                         std::span<const TaskArgs> arguments);

 private:
  detail::OrchestratorImpl&
      impl_;  // borrowed from the submit, outlived because it is valid in the function only
};

/// A name and an orchestration function. It never leaves the host. Copyable; several threads may
/// submit one at once, and then the function must be thread-safe. One that was moved from is
/// `invalid_argument` to a submit.
class RANKCAST_API Program {
 public:
  using Function = std::function<void(Orchestrator&, const Arguments&)>;

  /// Throws `Error(invalid_argument)` for an empty function.
  Program(std::string name, Function function);

  const std::string& name() const noexcept { return name_; }
  const Function& function() const noexcept { return function_; }

 private:
  std::string name_;
  Function function_;
};

}  // namespace rankcast
