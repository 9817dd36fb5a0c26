// An idle mesh of 64 ranks takes no measurable processor time.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>

#include "mesh/support.h"

namespace rankcast::test {
namespace {

/// Processor time of all threads of this process.
std::chrono::microseconds cpu_time() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

/// Processor time of a mesh that does nothing for that long, once everyone in it has gone to sleep.
std::chrono::microseconds idle_cpu_time(std::chrono::milliseconds span) {
  MeshOptions options;
  options.devices = "cpu:0-63";
  Mesh mesh = Mesh::open(options);
  const auto count = add_counter(mesh);
  mesh.submit(launch_everywhere("test.count"), {}).wait();
  EXPECT_EQ(count->load(), 64);
  poll(nullptr, 0, 200);
  const auto before = cpu_time();
  poll(nullptr, 0, static_cast<int>(span.count()));
  return cpu_time() - before;
}

// A stated budget of processor time, not of a clock: under 1 % of a core.
TEST(MeshIdle, SixtyFourRanksSleep) {
  EXPECT_LT(idle_cpu_time(std::chrono::seconds(1)), std::chrono::milliseconds(10));
}

TEST(ThoroughMeshIdle, SixtyFourRanksSleepForFiveSeconds) {
  const auto used = idle_cpu_time(std::chrono::seconds(5));
  RecordProperty("cpu_time_us", static_cast<int>(used.count()));
  EXPECT_LT(used, std::chrono::milliseconds(50));
}

}  // namespace
}  // namespace rankcast::test
