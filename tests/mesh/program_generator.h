// Makes random scenarios: buffers, and what a host does with them through random programs.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "mesh/random_program.h"
#include "mesh/serial_executor.h"

namespace rankcast::test {

/// The same seed makes the same scenario.
class ProgramGenerator {
 public:
  ProgramGenerator(std::uint64_t seed, int ranks) : random_(seed), ranks_(ranks) {}

  /// One scenario of so many programs. Used once.
  Scenario make(std::size_t programs);

 private:
  using Tasks = std::vector<ProgramTask>;
  using Kind = ProgramTask::Kind;

  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(end));
  }
  std::int64_t between(std::int64_t first, std::int64_t last) {
    return first + below(last - first + 1);
  }
  bool chance(int percent) { return below(100) < percent; }
  template <class T>
  const T& one_of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(below(std::ssize(values)))];
  }

  void make_buffers();
  HostLayout whole(std::size_t buffer) const { return {buffer, scenario_.buffers[buffer]}; }
  std::size_t buffer_on(int rank);

  HostLayout random_view(std::size_t buffer);
  HostLayout random_strided(const HostLayout& view, const std::vector<std::int64_t>& shape,
                            bool may_repeat);
  /// A view that is written.
  HostLayout target_view(std::size_t buffer);
  /// Of `buffer`, of the shape of `like`; none if it is too small.
  std::optional<HostLayout> matching_view(std::size_t buffer, const HostLayout& like);
  /// On `rank`, with the dtype and shape of `like`, and apart from it but for careless programs.
  std::optional<HostLayout> source_view(int rank, const HostLayout& like);

  Given random_given(const HostLayout& view);
  Tag out_or_inout() { return chance(80) ? Tag::out : Tag::inout; }
  ProgramTask make_task(const Tasks& earlier);
  void add_sources(ProgramTask& task, int rank, std::size_t count, const HostLayout& like);
  Tasks make_tasks();
  void leave_out_of_order(Tasks& tasks);
  /// The tasks with buffers in the places of others, or changed a little.
  Tasks varied(Tasks tasks);
  Tasks with_other_buffers(Tasks tasks);
  /// Views of the same shapes and strides elsewhere in their buffers.
  Tasks with_other_offsets(Tasks tasks);

  void add_programs();
  void add_submit(std::size_t program, const Tasks& tasks);
  void add_something_between();
  void renew(std::size_t buffer);
  void add_wait() { scenario_.steps.push_back({.kind = HostStep::Kind::wait}); }

  std::mt19937_64 random_;
  int ranks_;
  Scenario scenario_;
  std::optional<SerialExecutor> serial_;
  bool careless_ = false;  // of the program at hand: arguments of a task may share bytes
  std::int64_t in_flight_ = 0;
};

}  // namespace rankcast::test
