// The watchdog of a mesh: kernels that do not end are told, once, with where they are.
// tests: src/mesh/watch.cc
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "mesh/probe_gates.h"
#include "mesh/support.h"
#include "support/scoped_variable.h"

namespace rankcast::test {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

/// Standard error goes into a file that can be read meanwhile.
class CaughtLog {
 public:
  explicit CaughtLog(const std::string& path) : path_(path), saved_(dup(STDERR_FILENO)) {
    const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    dup2(file, STDERR_FILENO);
    close(file);
  }
  ~CaughtLog() {
    dup2(saved_, STDERR_FILENO);
    close(saved_);
  }
  CaughtLog(const CaughtLog&) = delete;
  CaughtLog& operator=(const CaughtLog&) = delete;

  /// The lines that have all of `words`.
  std::vector<std::string> lines(const std::vector<std::string>& words) const {
    std::vector<std::string> found;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) {
      const bool has_all = std::ranges::all_of(
          words, [&](const std::string& word) { return line.find(word) != std::string::npos; });
      if (has_all) found.push_back(line);
    }
    return found;
  }

 private:
  std::string path_;
  int saved_;
};

class MeshWatch : public OnEachLink {
 protected:
  Mesh open(std::chrono::duration<double> watchdog) const {
    MeshOptions options;
    options.devices = "cpu:0-2";
    options.link = GetParam();
    options.watchdog = watchdog;
    Mesh mesh = Mesh::open(options);
    mesh.load_kernels(RANKCAST_TEST_PROBE_KERNELS);
    return mesh;
  }
  /// One task at each of these gates, on rank 1; others on rank 0 that end.
  static Program gates(std::vector<int> gates) {
    return Program("gates", [gates](Orchestrator& orch, const Arguments&) {
      orch.submit("probe.sleeps", 0, TaskArgs{}.scalar(0));
      for (const int gate : gates) orch.submit("probe.gate", 1, TaskArgs{}.scalar(gate));
    });
  }
  /// The reports that a run is at a task of the gates.
  std::vector<std::string> reports(const rankcast::Run& run, int task) const {
    return log_.lines({"watchdog: rank 1: run " + std::to_string(run.dispatch_id()) + ",",
                       "task " + std::to_string(task) + " ('probe.gate')"});
  }

  ProbeGates gates_;
  CaughtLog log_{gates_.path("log")};
};

TEST_P(MeshWatch, OneReportAnEpisode) {
  Mesh mesh = open(milliseconds(30));
  const rankcast::Run first = mesh.submit(gates({0, 1}), {});
  for (const int task : {1, 2}) {
    ASSERT_TRUE(gates_.entered(task - 1));
    ASSERT_TRUE(eventually([&] { return !reports(first, task).empty(); })) << task;
    poll(nullptr, 0, 200);  // what would be told again is
    EXPECT_EQ(reports(first, task).size(), 1u) << "nothing has moved since";
    gates_.open(task - 1);
  }
  first.wait();
  const rankcast::Run second = mesh.submit(gates({2}), {});
  ASSERT_TRUE(eventually([&] { return !reports(second, 1).empty(); }));
  gates_.open(2);
  second.wait();
  for (const int task : {1, 2}) EXPECT_EQ(reports(first, task).size(), 1u);
  EXPECT_EQ(reports(second, 1).size(), 1u);
}

TEST_P(MeshWatch, ItNamesEverythingAndTheLastDispatchesOfEveryRank) {
  Mesh mesh = open(milliseconds(30));
  const rankcast::Run before = mesh.submit(launch_on("probe.gate", {}), {});
  before.wait();
  const rankcast::Run run = mesh.submit(gates({0}), {});
  ASSERT_TRUE(gates_.entered(0));
  const rankcast::Run behind = mesh.submit(gates({1}), {});
  // Told anew: a run that rank 0 has ended moved something.
  ASSERT_TRUE(eventually([&] { return !log_.lines({"1 later run waits behind it"}).empty(); }));
  ASSERT_TRUE(eventually([&] { return !log_.lines({"rank 2 did last: "}).empty(); }));
  const std::string line = reports(run, 1).back();
  EXPECT_THAT(line, HasSubstr("task 1 ('probe.gate'), number 1 of 1 on this rank"));
  EXPECT_THAT(line, HasSubstr("; its timeline is at run "));
  EXPECT_FALSE(log_.lines({"watchdog: nothing has moved for ", "1 of 3 ranks are behind"}).empty());
  const std::string name = "run " + std::to_string(run.dispatch_id()) + " (1 task) ";
  EXPECT_FALSE(log_.lines({"watchdog: rank 0 did last: ", name + "good, "}).empty());
  EXPECT_FALSE(log_.lines({"watchdog: rank 1 did last: ", name + "entered ", "not left"}).empty());
  EXPECT_FALSE(log_.lines({"watchdog: rank 2 did last: "}).empty());
  EXPECT_TRUE(log_.lines({"watchdog: rank 0: "}).empty()) << "it is not behind";
  for (const int gate : {0, 1}) gates_.open(gate);
  run.wait();
  behind.wait();
}

TEST_P(MeshWatch, ARankThatWaitsForAnotherSaysForWhat) {
  Mesh mesh = open(milliseconds(30));
  const Program program("waits", [](Orchestrator& orch, const Arguments&) {
    const Task first = orch.submit("probe.gate", 1, TaskArgs{}.scalar(0));
    orch.submit("probe.sleeps", 2, TaskArgs{}.scalar(0));
    orch.submit("probe.sleeps", 2, TaskArgs{}.scalar(0).after(first));
  });
  const rankcast::Run run = mesh.submit(program, {});
  ASSERT_TRUE(gates_.entered(0));
  const std::string number = std::to_string(run.dispatch_id());
  EXPECT_TRUE(eventually([&] {
    return !log_.lines(
                    {"watchdog: rank 2: run " + number + ", task 2 ('probe.sleeps'), number 2 of 2",
                     "waits for lane 1 to reach run " + number + ", 1 task (it is at run "})
                .empty();
  }));
  EXPECT_FALSE(log_.lines({"watchdog: rank 1: run " + number + ", task 0 ('probe.gate')"}).empty());
  gates_.open(0);
  run.wait();
}

// A copy waits for the run that writes its source.
TEST_P(MeshWatch, ARankThatWaitsForAnotherRunSaysForWhich) {
  Mesh mesh = open(milliseconds(30));
  const DeviceTensor source = mesh.alloc(1, {1}, DType::i64);
  const DeviceTensor target = mesh.alloc(2, {1}, DType::i64);
  const rankcast::Run writer =
      mesh.submit(Program("writes",
                          [&](Orchestrator& orch, const Arguments&) {
                            orch.submit("probe.gate", 1, TaskArgs{}.out(source).scalar(0));
                          }),
                  {});
  ASSERT_TRUE(gates_.entered(0));
  const rankcast::Run copy = mesh.submit(
      Program("copies", [&](Orchestrator& orch, const Arguments&) { orch.copy(target, source); }),
      {});
  const std::string number = std::to_string(writer.dispatch_id());
  EXPECT_TRUE(eventually([&] {
    return !log_.lines({"watchdog: rank 2: run " + std::to_string(copy.dispatch_id()), "('copy')",
                        "waits for lane 1 to reach run " + number + ", 1 task"})
                .empty();
  }));
  gates_.open(0);
  writer.wait();
  copy.wait();
}

TEST_P(MeshWatch, NothingIsSaidOfARunThatIsSlowAndMoves) {
  Mesh mesh = open(std::chrono::seconds(2));
  const Program slow("slow", [](Orchestrator& orch, const Arguments&) {
    for (int i = 0; i < 30; ++i) orch.submit("probe.sleeps", 1, TaskArgs{}.scalar(100));
  });
  mesh.submit(slow, {}).wait();
  EXPECT_TRUE(log_.lines({"watchdog"}).empty());
}

TEST_P(MeshWatch, WithoutAPeriodNothingIsSaid) {
  Mesh mesh = open(milliseconds(0));
  const rankcast::Run run = mesh.submit(gates({0}), {});
  ASSERT_TRUE(gates_.entered(0));
  poll(nullptr, 0, 100);
  EXPECT_TRUE(log_.lines({"watchdog"}).empty());
  gates_.open(0);
  run.wait();
}

TEST_P(MeshWatch, TheVariableTurnsItOn) {
  const ScopedVariable variable("RANKCAST_WATCHDOG_MS", "20");
  Mesh mesh = open(milliseconds(0));
  const rankcast::Run run = mesh.submit(gates({0}), {});
  EXPECT_TRUE(eventually([&] { return reports(run, 1).size() == 1; }));
  gates_.open(0);
  run.wait();
}

TEST_P(MeshWatch, AVariableThatIsNoTimeFailsOpen) {
  const ScopedVariable variable("RANKCAST_WATCHDOG_MS", "soon");
  expect_error(ErrorCode::invalid_argument, {"RANKCAST_WATCHDOG_MS", "soon"},
               [&] { open(milliseconds(0)); });
}

TEST_P(MeshWatch, ACloseThatWaitsIsWatchedToo) {
  Mesh mesh = open(milliseconds(30));
  const rankcast::Run run = mesh.submit(gates({0}), {});
  ASSERT_TRUE(gates_.entered(0));
  std::thread closer([&] { mesh.close(kHangLimit); });
  EXPECT_TRUE(eventually([&] { return reports(run, 1).size() == 1; }));
  gates_.open(0);
  closer.join();
}

/// How often the keeper of the only mesh has gone to sleep.
std::int64_t sleeps_of_keeper() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm") >> std::ws, name);
    if (name != "rankcast-keeper") continue;
    std::ifstream status(task.path() / "status");
    for (std::string word; status >> word;) {
      std::int64_t count = 0;
      if (word == "voluntary_ctxt_switches:" && status >> count) return count;
    }
  }
  return -1;
}

TEST_P(MeshWatch, BetweenRunsTheKeeperSleeps) {
  Mesh mesh = open(milliseconds(1));
  mesh.submit(gates({}), {}).wait();
  // It looks once more after the run has ended, and then no more.
  std::int64_t before = -1;
  EXPECT_TRUE(eventually([&] {
    before = sleeps_of_keeper();
    poll(nullptr, 0, 50);
    return before >= 0 && sleeps_of_keeper() == before;
  }));
  poll(nullptr, 0, 100);
  EXPECT_EQ(sleeps_of_keeper(), before);
}

INSTANTIATE_TEST_SUITE_P(Links, MeshWatch, all_links(), name_of_link);

}  // namespace
}  // namespace rankcast::test
