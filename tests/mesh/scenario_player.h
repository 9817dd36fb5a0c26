// Plays a scenario on a mesh and compares all that it can see with a serial executor.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mesh/random_program.h"
#include "mesh/serial_executor.h"

namespace rankcast::test {

/// Needs a mesh that has the kernel `probe.yields`. Used once.
class ScenarioPlayer {
 public:
  ScenarioPlayer(Mesh& mesh, const Scenario& scenario)
      : mesh_(mesh), scenario_(scenario), serial_(scenario.buffers) {
    places_.resize(scenario.buffers.size());
  }
  /// Waits for all runs and frees all tensors.
  ~ScenarioPlayer();
  ScenarioPlayer(const ScenarioPlayer&) = delete;
  ScenarioPlayer& operator=(const ScenarioPlayer&) = delete;

  /// The first thing that is not as it must be.
  std::optional<std::string> play();

  int submitted() const { return submitted_; }
  int refused() const { return refused_; }

 private:
  /// Where a buffer is.
  struct Place {
    DeviceTensor tensor;
    StackedDeviceTensor stack = {};  // that it is a shard of, or empty
    int shard = 0;
  };
  /// The arguments of a submit, and which of them each tensor of each task is.
  struct Bound {
    std::vector<Argument> arguments;
    std::vector<std::vector<std::size_t>> numbers;
  };

  /// By buffer: the temporary that stands in for it.
  using Doubles = std::map<std::size_t, ArgumentRef>;

  void play(const HostStep& step);
  void submit(const HostStep& step);
  Bound bind(const std::vector<ProgramTask>& tasks) const;
  Program& program(std::size_t number);
  void orchestrate(Orchestrator& orch, const Arguments& args) const;
  TaskArgs task_args(const ProgramTask& task, const std::vector<std::size_t>& numbers,
                     const Arguments& args, const std::vector<Task>& earlier,
                     const Doubles& doubles) const;
  void begin_double(Orchestrator& orch, std::size_t buffer, Doubles* doubles) const;
  void end_double(Orchestrator& orch, std::size_t buffer, std::size_t task, Doubles* doubles) const;
  void upload(const HostStep& step);
  void download(const HostLayout& view);
  void look(const HostLayout& view);
  void compare(const HostLayout& view, std::span<const std::byte> found,
               std::span<const std::byte> wanted);
  void renew(const HostStep& step);
  void free(std::size_t buffer);
  void wait();
  void fail(const std::string& what);

  Mesh& mesh_;                // borrowed from the test, which outlives the player
  const Scenario& scenario_;  // likewise
  SerialExecutor serial_;
  std::vector<Place> places_;
  std::map<std::size_t, Program> programs_;
  std::vector<rankcast::Run> runs_;
  std::vector<ResidentView> looks_;    // kept to the end: what is freed stays
  const HostStep* current_ = nullptr;  // whose tasks the program at hand submits
  Bound bound_;
  std::optional<std::string> failure_;
  int submitted_ = 0;
  int refused_ = 0;
};

}  // namespace rankcast::test
