// A user's program: opens ranks, sums one tensor on each, and checks what came back.
#include <rankcast/rankcast.h>

#include <cstdio>
#include <string_view>
#include <vector>

namespace rc = rankcast;

int main() {
  if (std::string_view(rc::library_version()) != RANKCAST_VERSION_STRING) {
    std::fprintf(stderr, "headers and library differ\n");
    return 1;
  }
  rc::Mesh mesh = rc::Mesh::open({.devices = "cpu:0-1"});
  const std::vector<float> host{1, 2, 3, 4};
  const rc::StackedDeviceTensor x = mesh.alloc_stacked(rc::HostView(host.data(), {2, 2}));
  const rc::StackedDeviceTensor y = mesh.alloc_stacked({2, 2}, rc::DType::f32);
  const rc::Program program("add_to_itself", [](rc::Orchestrator& orch, const rc::Arguments& args) {
    for (int rank = 0; rank < orch.world_size(); ++rank) {
      const rc::ArgumentRef in = args[0].shard_on(rank);
      orch.submit("rankcast.sum", rank, rc::TaskArgs{}.in(in).in(in).out(args[1].shard_on(rank)));
    }
  });
  mesh.submit(program, {x, y}).wait();
  std::vector<float> result(4);
  mesh.download(y, rc::MutableHostView(result.data(), {2, 2}));
  if (result != std::vector<float>{2, 4, 6, 8}) {
    std::fprintf(stderr, "wrong sums\n");
    return 1;
  }

  mesh.free(x);
  try {
    mesh.submit(program, {x, y}).wait();
  } catch (const rc::Error& error) {
    if (error.code() == rc::ErrorCode::stale_tensor) {
      std::puts("consumer: good");
      return 0;
    }
    std::fprintf(stderr, "%s\n", error.what());
  }
  std::fprintf(stderr, "a freed tensor was accepted\n");
  return 1;
}
