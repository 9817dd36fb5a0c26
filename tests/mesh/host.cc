// A program with a mesh of process ranks, for tests that end it: tells the processes of its ranks,
// then waits. It catches the interrupt of a terminal, and then still uses its ranks.
//
// host RANK_BINARY KERNEL_LIBRARY
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rankcast/rankcast.h"

namespace {

using namespace rankcast;

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

Program fill_on(std::vector<int> ranks) {
  return Program("fill", [ranks](Orchestrator& orch, const Arguments& args) {
    for (const int rank : ranks)
      orch.submit("rankcast.fill", rank, TaskArgs{}.out(args[0].shard_on(rank)).scalar(7.0));
  });
}

int serve(const char* rank_binary) {
  MeshOptions options;
  options.devices = "cpu:0-2,null:0?delay_us=10000000";
  options.link = "process";
  options.rank_binary = rank_binary;
  std::optional<Mesh> mesh;
  // The ranks outlive the thread that has started them.
  std::thread([&] { mesh.emplace(Mesh::open(options)); }).join();
  const StackedDeviceTensor tensor = mesh->alloc_stacked({4, 4}, DType::f32);
  mesh->submit(fill_on({0, 1, 2}), {tensor}).wait();
  const Run in_flight = mesh->submit(fill_on({3}), {tensor});
  std::string processes;
  for (const RankInfo& rank : mesh->ranks()) processes += std::to_string(rank.process) + " ";
  say(processes);

  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  int signal = 0;
  sigwait(&interrupt, &signal);
  mesh->submit(fill_on({0, 1, 2}), {tensor}).wait();
  say("the ranks live");
  mesh->restart_rank(3);
  mesh->close();
  say("closed");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  setenv("RANKCAST_KERNEL_LIBRARY", argv[2], 1);
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_BLOCK, &interrupt, nullptr);
  try {
    return serve(argv[1]);
  } catch (const std::exception& error) {
    say(error.what());
    return 1;
  }
}
