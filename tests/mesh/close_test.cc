// The end of a mesh: drained, twice, from two threads, after a try that timed out, with a kernel
// that does not return.
// tests: src/mesh/core.cc
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "mesh/support.h"

namespace rankcast::test {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

Mesh open(std::string devices,
          std::chrono::duration<double> close_timeout = std::chrono::seconds(30),
          int max_in_flight = 4) {
  MeshOptions options;
  options.devices = std::move(devices);
  options.close_timeout = close_timeout;
  options.max_in_flight = max_in_flight;
  return Mesh::open(options);
}

std::uint64_t total(const CloseReport& report) {
  return report.drained_runs + report.leaked_buffers + report.leaked_bytes;
}

/// Waits until another thread's close has begun.
bool admits_nothing_soon(const Mesh& mesh) {
  return eventually([&] {
    try {
      mesh.stats();
      return false;
    } catch (const Error& error) {
      return error.code() == ErrorCode::closed;
    }
  });
}

TEST(MeshClose, GivesThreadsAndDescriptorsBack) {
  const std::size_t threads = thread_count();
  const std::size_t descriptors = descriptor_count();
  for (int round = 0; round < 5; ++round) {
    Mesh mesh = open("cpu:0-3,null:0-1?delay_us=20");
    add_counter(mesh);
    mesh.submit(launch_everywhere("test.count"), {}).wait();
    if (round % 2 == 0) mesh.close();
  }
  EXPECT_TRUE(eventually([&] { return thread_count() == threads; }));
  EXPECT_EQ(descriptor_count(), descriptors);
}

TEST(MeshClose, DrainsWhatIsInFlight) {
  Mesh mesh = open("cpu:0-1");
  const auto gate = add_gate(mesh);
  const auto count = add_counter(mesh);
  const rankcast::Run first = mesh.submit(launch_everywhere("test.gate"), {});
  const rankcast::Run second = mesh.submit(launch_everywhere("test.count"), {});
  gate->wait_entered(2);
  std::thread opener([&] {
    EXPECT_TRUE(admits_nothing_soon(mesh));
    gate->open();
  });
  const CloseReport report = mesh.close();
  opener.join();
  EXPECT_EQ(report.drained_runs, 2u);
  EXPECT_EQ(count->load(), 2);
  first.wait();
  second.wait();
  EXPECT_EQ(total(mesh.close()), 0u);
}

TEST(MeshClose, ATryThatTimesOutNamesWhatRuns) {
  Mesh mesh = open("cpu:0-1");
  const auto gate = add_gate(mesh);
  const OpenAtEnd open_at_end(gate);
  mesh.alloc(0, {4}, DType::f32);
  const rankcast::Run run = mesh.submit(launch_on("test.gate", {1}), {});
  gate->wait_entered(1);
  for (int i = 0; i < 2; ++i) {
    expect_error(ErrorCode::deadline_exceeded,
                 {"close", "run " + std::to_string(run.dispatch_id()) + " on rank 1"},
                 [&] { mesh.close(milliseconds(20)); });
    expect_error(ErrorCode::closed, {"closed"},
                 [&] { mesh.submit(launch_on("test.gate", {0}), {}); });
    expect_error(ErrorCode::closed, {"closed"}, [&] { mesh.alloc(0, {4}, DType::f32); });
  }
  EXPECT_FALSE(run.done());
  EXPECT_FALSE(run.wait_for(milliseconds(1)));
  gate->open();
  const CloseReport report = mesh.close();
  EXPECT_EQ(report.leaked_buffers, 1u);
  EXPECT_EQ(report.leaked_bytes, 16u);
  run.wait();
}

TEST(MeshClose, TwoThreadsCloseAtOnce) {
  for (int round = 0; round < 20; ++round) {
    Mesh mesh = open("cpu:0-1");
    mesh.alloc(0, {4}, DType::f32);
    add_counter(mesh);
    const rankcast::Run run = mesh.submit(launch_everywhere("test.count"), {});
    std::array<CloseReport, 2> reports;
    std::vector<std::thread> threads;
    for (CloseReport& report : reports) threads.emplace_back([&] { report = mesh.close(); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(reports[0].leaked_buffers + reports[1].leaked_buffers, 1u) << "one of them did it";
    EXPECT_TRUE(total(reports[0]) == 0 || total(reports[1]) == 0);
    EXPECT_TRUE(run.done());
  }
}

TEST(MeshClose, ASecondCloserWaitsWithinItsOwnBudget) {
  Mesh mesh = open("cpu:0");
  const auto gate = add_gate(mesh);
  const OpenAtEnd open_at_end(gate);
  const rankcast::Run run = mesh.submit(launch_on("test.gate", {0}), {});
  gate->wait_entered(1);
  std::thread closer([&] { EXPECT_EQ(mesh.close(kHangLimit).drained_runs, 1u); });
  EXPECT_TRUE(admits_nothing_soon(mesh));
  expect_error(ErrorCode::deadline_exceeded, {"close", "another thread"},
               [&] { mesh.close(milliseconds(1)); });
  gate->open();
  closer.join();
}

TEST(MeshClose, ReleasesASubmitThatWaitsForRoom) {
  Mesh mesh = open("cpu:0-1", std::chrono::seconds(30), 1);
  const auto gate = add_gate(mesh);
  const OpenAtEnd open_at_end(gate);
  const auto count = add_counter(mesh);
  const rankcast::Run blocking = mesh.submit(launch_on("test.gate", {0}), {});
  std::atomic<int> laid_out{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      expect_error(ErrorCode::closed, {"closed"}, [&] {
        mesh.submit(Program("late",
                            [&](Orchestrator& orch, const Arguments&) {
                              orch.submit("test.count", 1, TaskArgs{});
                              laid_out.fetch_add(1);
                            }),
                    {});
      });
    });
  }
  EXPECT_TRUE(eventually([&] { return laid_out.load() == 2; }));
  expect_error(ErrorCode::deadline_exceeded, {}, [&] { mesh.close(milliseconds(1)); });
  for (std::thread& thread : threads) thread.join();  // while the mesh cannot be closed yet
  gate->open();
  EXPECT_EQ(mesh.close().drained_runs, 1u);
  EXPECT_EQ(count->load(), 0);
}

TEST(MeshClose, ADestructorLeavesAStuckKernelAlone) {
  const std::size_t threads = thread_count();
  const std::size_t descriptors = descriptor_count();
  std::shared_ptr<Gate> gate;
  ::testing::internal::CaptureStderr();
  {
    Mesh mesh = open("cpu:0-2", milliseconds(20));
    gate = add_gate(mesh);
    const DeviceTensor used = mesh.alloc(1, {1024}, DType::u8);
    mesh.register_kernel("test.touch", [gate](const KernelCall& call) {
      gate->pass();
      static_cast<unsigned char*>(call.tensors[0].data)[1023] = 1;  // its memory is still there
    });
    const rankcast::Run run =
        mesh.submit(Program("stuck",
                            [&](Orchestrator& orch, const Arguments&) {
                              orch.submit("test.touch", 1, TaskArgs{}.out(used));
                            }),
                    {});
    gate->wait_entered(1);
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("on rank 1"));
  EXPECT_GT(thread_count(), threads) << "the stuck rank is still there";
  gate->open();
  EXPECT_TRUE(eventually([&] { return thread_count() == threads; }))
      << "every rank ends once it can";
  EXPECT_TRUE(eventually([&] { return descriptor_count() == descriptors; }));
}

TEST(MeshClose, ARunOfAMeshThatWasGivenUpCanBeWaitedFor) {
  std::shared_ptr<Gate> gate;
  rankcast::Run run;
  {
    Mesh mesh = open("cpu:0", milliseconds(10));
    gate = add_gate(mesh);
    run = mesh.submit(launch_on("test.gate", {0}), {});
    gate->wait_entered(1);
  }
  EXPECT_FALSE(run.done());
  EXPECT_FALSE(run.wait_for(milliseconds(1)));
  gate->open();
  run.wait();
  EXPECT_TRUE(run.done());
}

#if defined(__SANITIZE_THREAD__)
#define RANKCAST_TEST_NO_FORK 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RANKCAST_TEST_NO_FORK 1
#endif
#endif

/// The exit status of a child that runs `body`; -1 when it hung or was killed.
template <class Body>
int status_of_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(body());
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

template <class Call>
bool answers_closed(Call call) {
  try {
    call();
    return false;
  } catch (const Error& error) {
    return error.code() == ErrorCode::closed;
  }
}

TEST(MeshClose, InAForkedChildEverythingIsClosed) {
#ifdef RANKCAST_TEST_NO_FORK
  GTEST_SKIP() << "ThreadSanitizer ends a forked child that has had threads";
#endif
  auto mesh = std::make_unique<Mesh>(open("cpu:0-1"));
  const auto gate = add_gate(*mesh);
  const OpenAtEnd open_at_end(gate);
  const DeviceTensor tensor = mesh->alloc(0, {1}, DType::f32);
  auto run = std::make_unique<rankcast::Run>(mesh->submit(launch_on("test.gate", {0}), {}));
  gate->wait_entered(1);
  const int status = status_of_child([&] {
    if (!answers_closed([&] { mesh->alloc(0, {1}, DType::f32); })) return 1;
    if (!answers_closed([&] { mesh->submit(launch_on("test.gate", {0}), {}); })) return 2;
    if (!answers_closed([&] { mesh->free(tensor); })) return 3;
    if (!answers_closed([&] { run->wait(); })) return 4;
    if (!answers_closed([&] { run->done(); })) return 5;
    if (total(mesh->close()) != 0) return 6;
    run.reset();
    mesh.reset();
    return 0;
  });
  EXPECT_EQ(status, 0);
  // The parent's mesh has noticed nothing.
  gate->open();
  run->wait();
  EXPECT_EQ(mesh->close().leaked_buffers, 1u);
}

}  // namespace
}  // namespace rankcast::test
