#include "tools/rankcast/cgroup.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/temp_folder.h"

namespace rankcast::tools {
namespace {

class Cgroup : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_.path(name)).parent_path());
    root_.write(name, text);
  }
  CgroupLimits limits() const { return read_cgroup_limits(root_.path("")); }

  test::TempFolder root_;
};

TEST_F(Cgroup, WithoutAnyThereIsNoLimit) {
  EXPECT_FALSE(limits().cores);
  write("proc/self/cgroup", "nonsense\n0::/a\n");
  const CgroupLimits found = limits();
  EXPECT_FALSE(found.cores || found.memory_bytes || found.tasks);
}

TEST_F(Cgroup, TheTightestOfTheGroupAndThoseAboveCounts) {
  write("proc/self/cgroup", "0::/slice/job\n");
  write("sys/fs/cgroup/slice/job/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/slice/job/memory.max", "1048576\n");
  write("sys/fs/cgroup/slice/job/pids.max", "max\n");
  write("sys/fs/cgroup/slice/cpu.max", "150000 100000\n");
  write("sys/fs/cgroup/slice/memory.max", "2097152\n");
  write("sys/fs/cgroup/pids.max", "64\n");
  const CgroupLimits found = limits();
  EXPECT_EQ(found.cores, 1.5);
  EXPECT_EQ(found.memory_bytes, 1048576u);
  EXPECT_EQ(found.tasks, 64u);
}

TEST_F(Cgroup, AGroupThatIsNotMountedLeavesTheOneAtTheRoot) {
  write("proc/self/cgroup", "0::/../../outside\n");
  write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(limits().cores, 2.0);
}

TEST_F(Cgroup, VersionOneIsRead) {
  write("proc/self/cgroup", "5:memory:/job\n4:cpu,cpuacct:/job\n3:pids:/job\n");
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "50000\n");
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/pids/job/pids.max", "12\n");
  const CgroupLimits found = limits();
  EXPECT_EQ(found.cores, 0.5);
  EXPECT_FALSE(found.memory_bytes) << "that is how version 1 says that there is none";
  EXPECT_EQ(found.tasks, 12u);
}

TEST_F(Cgroup, APeriodOfNothingIsNoLimit) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/cpu.max", "100000 0\n");
  EXPECT_FALSE(limits().cores);
  write("sys/fs/cgroup/cpu.max", "100000\n");
  EXPECT_FALSE(limits().cores);
}

}  // namespace
}  // namespace rankcast::tools
