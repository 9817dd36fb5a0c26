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
    afters_.shrink(tasks_[count].first_after);
    tasks_.shrink(count);
  }

  /// `kernel` is any number that names the kernel; `members` those of the task's group, 0 for none.
  void add(std::size_t kernel, int rank, std::size_t members,
           std::span<const detail::TaskArgument> arguments, std::span<const std::uint32_t> afters) {
    tasks_.push({kernel, members, rank, static_cast<std::uint32_t>(arguments_.size()),
                 static_cast<std::uint32_t>(arguments.size()),
                 static_cast<std::uint32_t>(afters_.size()),
                 static_cast<std::uint32_t>(afters.size())});
    append(arguments_, arguments);
    append(afters_, afters);
  }

  std::size_t kernel_of(std::size_t task) const noexcept { return tasks_[task].kernel; }

  /// True if task number `task` ran on this rank, in such a group, with these references and tags
  /// and after these tasks. What they refer to, the program's own tensors and scalars are not
  /// remembered here.
  bool equals(std::size_t task, int rank, std::size_t members,
              std::span<const detail::TaskArgument> arguments,
              std::span<const std::uint32_t> afters) const noexcept {
    const Remembered& known = tasks_[task];
    return known.rank == rank && known.members == members && known.arguments == arguments.size() &&
           known.afters == afters.size() &&
           same(arguments_.data() + known.first_argument, arguments) &&
           same(afters_.data() + known.first_after, afters);
  }

 private:
  struct Remembered {
    std::size_t kernel;
    std::size_t members;
    int rank;
    std::uint32_t first_argument;
    std::uint32_t arguments;
    std::uint32_t first_after;
    std::uint32_t afters;
  };

  template <class T>
  static void append(base::Scratch<T>& to, std::span<const T> values) {
    if (!values.empty()) {
      std::memcpy(to.extend(values.size()), values.data(), values.size_bytes());
    }
  }
  // Of types without padding: equal bytes are equal values.
  template <class T>
  static bool same(const T* known, std::span<const T> values) noexcept {
    return values.empty() || std::memcmp(known, values.data(), values.size_bytes()) == 0;
  }

  base::Scratch<Remembered> tasks_;
  base::Scratch<detail::TaskArgument> arguments_;
  base::Scratch<std::uint32_t> afters_;
};

}  // namespace rankcast::program
