// The tasks of the last run as they were submitted: a program that makes the same tasks again, from
// the same arguments and while nothing was freed, need not have them checked and encoded again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/scratch.h"
#include "frame/records.h"
#include "program/task_args.h"
#include "rankcast/program.h"

namespace rankcast::program {

/// One thread at a time; keeps its memory. Tasks are numbered from 0 in the order of submission.
class TaskMemory {
 public:
  std::size_t size() const noexcept { return tasks_.size(); }

  void clear() noexcept { shrink(0); }

  /// Forgets the tasks from number `count` on.
  void shrink(std::size_t count) noexcept {
    if (count >= tasks_.size()) return;
    arguments_.shrink(tasks_[count].first_argument);
    scalars_.shrink(tasks_[count].first_scalar);
    tasks_.shrink(count);
  }

  /// `kernel` is any number that names the kernel.
  void add(std::size_t kernel, int rank, std::span<const detail::TaskArgument> arguments,
           std::span<const frame::ScalarRecord> scalars) {
    tasks_.push({kernel, rank, static_cast<std::uint32_t>(arguments_.size()),
                 static_cast<std::uint32_t>(arguments.size()),
                 static_cast<std::uint32_t>(scalars_.size()),
                 static_cast<std::uint32_t>(scalars.size())});
    copy(arguments_, arguments);
    copy(scalars_, scalars);
  }

  std::size_t kernel_of(std::size_t task) const noexcept { return tasks_[task].kernel; }

  /// True if task number `task` was this one. A task over a tensor that the program itself holds is
  /// never taken for another: the tensor is not remembered.
  bool equals(std::size_t task, int rank, std::span<const detail::TaskArgument> arguments,
              std::span<const frame::ScalarRecord> scalars) const noexcept {
    const Remembered& known = tasks_[task];
    return known.rank == rank &&
           same(arguments_, known.first_argument, known.arguments, arguments) &&
           same(scalars_, known.first_scalar, known.scalars, scalars);
  }

 private:
  struct Remembered {
    std::size_t kernel;
    int rank;
    std::uint32_t first_argument;
    std::uint32_t arguments;
    std::uint32_t first_scalar;
    std::uint32_t scalars;
  };

  template <class T>
  static void copy(base::Scratch<T>& to, std::span<const T> from) {
    if (!from.empty()) std::memcpy(to.extend(from.size()), from.data(), from.size_bytes());
  }
  // Both structs have no padding: equal bytes are equal values.
  template <class T>
  static bool same(const base::Scratch<T>& known, std::uint32_t first, std::uint32_t count,
                   std::span<const T> given) noexcept {
    return count == given.size() &&
           (count == 0 || std::memcmp(known.data() + first, given.data(), given.size_bytes()) == 0);
  }

  base::Scratch<Remembered> tasks_;
  base::Scratch<detail::TaskArgument> arguments_;
  base::Scratch<frame::ScalarRecord> scalars_;
};

}  // namespace rankcast::program
