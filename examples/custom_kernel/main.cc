// Loads the kernel library beside it and runs its kernel on four ranks:
//
//   custom_kernel LIBRARY [thread|process]
//
// Ends with 0 when every element is what it has to be.
#include <rankcast/rankcast.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace rc = rankcast;

namespace {

constexpr int kSteps = 10;

bool run(const std::string& library, const std::string& link) {
  rc::Mesh mesh = rc::Mesh::open({.devices = "cpu:0-3", .link = link});
  mesh.load_kernels(library);

  const std::vector<float> twos(4 * 16, 2.0F);
  const std::vector<float> ones(4 * 16, 1.0F);
  const rc::StackedDeviceTensor x = mesh.alloc_stacked(rc::HostView(twos.data(), {4, 16}));
  const rc::StackedDeviceTensor y = mesh.alloc_stacked(rc::HostView(ones.data(), {4, 16}));

  const rc::Program axpy("axpy", [](rc::Orchestrator& orch, const rc::Arguments& args) {
    for (int rank = 0; rank < orch.world_size(); ++rank) {
      orch.submit("blas.axpy", rank,
                  rc::TaskArgs{}
                      .in(args[0].shard_on(rank))
                      .inout(args[1].shard_on(rank))
                      .scalar(args[2].scalar()));
    }
  });
  for (int step = 0; step < kSteps; ++step) mesh.submit(axpy, {x, y, 0.5}).wait();

  std::vector<float> result(4 * 16);
  mesh.download(y, rc::MutableHostView(result.data(), {4, 16}));
  const float expected = 1.0F + kSteps * 0.5F * 2.0F;
  for (const float value : result) {
    if (value == expected) continue;
    std::printf("found %g, expected %g\n", static_cast<double>(value),
                static_cast<double>(expected));
    return false;
  }
  std::printf("blas.axpy on %d ranks, link %s: %g everywhere\n", mesh.world_size(), link.c_str(),
              static_cast<double>(expected));
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: custom_kernel LIBRARY [thread|process]\n");
    return 2;
  }
  try {
    return run(argv[1], argc > 2 ? argv[2] : "thread") ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "custom_kernel: %s\n", error.what());
    return 3;
  }
}
