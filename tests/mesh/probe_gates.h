// Gates that a kernel of the probe library (`probe.gate`, scalar N) waits at, on every link: files
// in a folder that ranks know by a variable.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "mesh/support.h"
#include "support/scoped_variable.h"
#include "support/temp_folder.h"

namespace rankcast::test {

/// Made before the mesh is opened. All of its gates are opened at its end, so that a failed
/// assertion leaves no kernel behind it.
class ProbeGates {
 public:
  static constexpr int kGates = 8;

  ProbeGates() = default;
  ~ProbeGates() { open_all(); }
  ProbeGates(const ProbeGates&) = delete;
  ProbeGates& operator=(const ProbeGates&) = delete;

  void open(int gate) const { folder_.write("open." + std::to_string(gate), ""); }
  void open_all() const {
    for (int gate = 0; gate < kGates; ++gate) open(gate);
  }
  /// Waits until a kernel has come to it.
  bool entered(int gate) const {
    return eventually(
        [&] { return std::filesystem::exists(folder_.path("entered." + std::to_string(gate))); });
  }
  std::string path(const std::string& name) const { return folder_.path(name); }

  /// One task at the gate on each of `ranks`.
  static Program program(int gate, std::vector<int> ranks) {
    return Program("gate", [gate, ranks](Orchestrator& orch, const Arguments&) {
      for (const int rank : ranks) orch.submit("probe.gate", rank, TaskArgs{}.scalar(gate));
    });
  }

 private:
  TempFolder folder_;
  ScopedVariable variable_{"RANKCAST_TEST_PROBE_GATES", folder_.path("")};
};

}  // namespace rankcast::test
