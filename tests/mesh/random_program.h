// Random programs as data: what a generator makes, a mesh runs, a serial executor computes and a
// person reads. Views are worked out here from what rankcast/tensor.h says, element by element, and
// share nothing with the library's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "rankcast/rankcast.h"

namespace rankcast::test {

/// A buffer on a rank. Those of one stack have one number, and are its shards in their order.
struct BufferSpec {
  static constexpr int kNoStack = -1;

  int rank = 0;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape = {};
  int stack = kNoStack;
};

/// One call that makes a view of a view.
struct ViewStep {
  enum class Kind : std::uint8_t { slice, transpose, strided };

  Kind kind = Kind::slice;
  int dim = 0;
  int other = 0;           // transpose
  std::int64_t begin = 0;  // slice
  std::int64_t end = 0;
  std::int64_t step = 1;
  std::vector<std::int64_t> shape = {};  // strided
  std::vector<std::int64_t> strides = {};
  std::int64_t offset = 0;
};

/// A view of a buffer. Numbers are in elements.
class HostLayout {
 public:
  /// The whole buffer.
  HostLayout(std::size_t buffer, const BufferSpec& spec);

  HostLayout slice(int dim, std::int64_t begin, std::int64_t end, std::int64_t step) const;
  HostLayout transpose(int dim, int other) const;
  HostLayout strided(std::vector<std::int64_t> shape, std::vector<std::int64_t> strides,
                     std::int64_t offset) const;
  /// The same view of another buffer of the same shape and dtype.
  HostLayout moved_to(std::size_t buffer) const;

  std::size_t buffer() const { return buffer_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  const std::vector<std::int64_t>& strides() const { return strides_; }
  int dims() const { return static_cast<int>(shape_.size()); }
  std::int64_t extent(int dim) const { return shape_[static_cast<std::size_t>(dim)]; }
  std::int64_t element_count() const;
  /// From the first element to the one after the last.
  std::int64_t span() const;

  /// Where in the buffer its elements are, in row-major order.
  std::vector<std::int64_t> elements() const;
  /// True if two of its elements are one of the buffer's.
  bool repeats_elements() const;

  /// The library's view of a tensor or a reference, made by the same calls. Throws
  /// std::logic_error if its shape is not the one here.
  template <class Tensor>
  Tensor of(Tensor view) const;
  /// ".slice(0, 2, 8, 3).transpose(0, 1)"
  std::string text() const;

 private:
  std::size_t buffer_;
  std::vector<std::int64_t> shape_;
  std::vector<std::int64_t> strides_;
  std::int64_t offset_ = 0;
  std::vector<ViewStep> steps_;
};

template <class Tensor>
Tensor HostLayout::of(Tensor view) const {
  for (const ViewStep& step : steps_) {
    switch (step.kind) {
      case ViewStep::Kind::slice:
        view = view.slice(step.dim, step.begin, step.end, step.step);
        break;
      case ViewStep::Kind::transpose:
        view = view.transpose(step.dim, step.other);
        break;
      case ViewStep::Kind::strided:
        view = view.strided(Shape(step.shape), step.strides, step.offset);
        break;
    }
  }
  if (view.shape() != Shape(shape_))
    throw std::logic_error(text() + " has shape " + view.shape().to_string());
  return view;
}

/// True if an element of one is an element of the other.
bool share_bytes(const HostLayout& a, const HostLayout& b);

/// How a task is given a tensor.
enum class Given : std::uint8_t {
  by_program,      // the program holds it
  by_argument,     // an argument of the submit
  by_reference,    // a view of an argument, which is the whole buffer
  by_stack_rank,   // shard_on(rank) of a stacked argument, or a view of it
  by_stack_index,  // [shard] of a stacked argument, or a view of it
};

struct ProgramArg {
  HostLayout view;
  Tag tag = Tag::in;
  Given given = Given::by_argument;
};

/// Tensors are in the kernel's order; those of a copy between ranks are destination and source.
struct ProgramTask {
  enum class Kind : std::uint8_t { fill, copy, sum, copy_between_ranks, yield };

  Kind kind = Kind::fill;
  int rank = 0;
  std::vector<ProgramArg> args = {};
  std::int64_t value = 0;  // fill: of each element; yield: how often
  std::vector<std::size_t> after = {};
};

inline bool is_written(const ProgramArg& arg) {
  return arg.tag == Tag::out || arg.tag == Tag::inout;
}

/// Two arguments share a byte, one of them written, and neither is left out of ordering.
bool must_be_refused(const ProgramTask& task);

/// True if `arg` of task `at`, which is `no_dep`, shares no byte with another argument of its task,
/// and every other task that shares one comes before or after its task by the order of their lane
/// and by `after` alone.
bool no_dep_is_safe(const std::vector<ProgramTask>& tasks, std::size_t at, const ProgramArg& arg);
/// The same of every `no_dep` argument.
bool no_dep_is_safe(const std::vector<ProgramTask>& tasks);

/// True if both touch a byte that one of them writes. What a `no_dep` argument of either writes is
/// counted.
bool conflict(const ProgramTask& a, const ProgramTask& b);

/// One thing that a host does to a mesh.
struct HostStep {
  enum class Kind : std::uint8_t {
    submit,
    upload,
    download,
    look,   // at the tensor's own memory
    renew,  // frees a buffer, or the stack that it is of, and allocates another like it
    wait,   // for all runs
    compare,
  };

  Kind kind = Kind::wait;
  std::size_t program = 0;  // submit: steps of one number submit one rankcast::Program
  std::vector<ProgramTask> tasks = {};
  std::vector<HostLayout> views = {};  // upload, download, look: one
  std::size_t buffer = 0;              // renew
  std::uint64_t pattern = 0;           // upload, renew: of the values
};

/// What `HostStep::Kind::renew` of a buffer renews: it, or all shards of the stack that it is of.
std::vector<std::size_t> renewed_with(const std::vector<BufferSpec>& specs, std::size_t buffer);

struct Scenario {
  std::vector<BufferSpec> buffers;
  std::vector<HostStep> steps;
  std::size_t programs = 0;
};

/// For people; every step and task on a line of its own.
std::string text_of(const Scenario& scenario);
std::string text_of(const ProgramTask& task);

}  // namespace rankcast::test
