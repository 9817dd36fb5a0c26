// The tasks of the last run as they were submitted: a program that makes the same tasks again need
// not have them encoded again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/scratch.h"
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
    tasks_.shrink(count);
  }

  /// `kernel` is any number that names the kernel; `lane_task` is the task's place among those of
  /// its lane.
  void add(std::size_t kernel, int rank, std::size_t lane_task,
           std::span<const detail::TaskArgument> arguments) {
    tasks_.push({kernel, lane_task, rank, static_cast<std::uint32_t>(arguments_.size()),
                 static_cast<std::uint32_t>(arguments.size())});
    if (arguments.empty()) return;
    std::memcpy(arguments_.extend(arguments.size()), arguments.data(), arguments.size_bytes());
  }

  std::size_t kernel_of(std::size_t task) const noexcept { return tasks_[task].kernel; }
  std::size_t lane_task_of(std::size_t task) const noexcept { return tasks_[task].lane_task; }

  /// True if task number `task` ran on this rank, with these references and tags. What they refer
  /// to, the program's own tensors and scalars are not remembered here.
  bool equals(std::size_t task, int rank,
              std::span<const detail::TaskArgument> arguments) const noexcept {
    const Remembered& known = tasks_[task];
    // Without padding: equal bytes are equal values.
    return known.rank == rank && known.arguments == arguments.size() &&
           (arguments.empty() || std::memcmp(arguments_.data() + known.first_argument,
                                             arguments.data(), arguments.size_bytes()) == 0);
  }

 private:
  struct Remembered {
    std::size_t kernel;
    std::size_t lane_task;
    int rank;
    std::uint32_t first_argument;
    std::uint32_t arguments;
  };

  base::Scratch<Remembered> tasks_;
  base::Scratch<detail::TaskArgument> arguments_;
};

}  // namespace rankcast::program
