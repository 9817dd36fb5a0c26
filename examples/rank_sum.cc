// One program, cast to every rank: each adds its own shard of two resident tensors.
//
//   rank_sum [DEVICES]      such as cpu:0-7, the default
//
// Exit status: 0 every result is right, 1 one is wrong, 3 Rankcast threw.
#include <cstddef>
#include <cstdio>
#include <exception>
#include <vector>

#include "rankcast/rankcast.h"

namespace {

namespace rc = rankcast;

constexpr std::size_t kColumns = 16;

// Two inputs and an output, one shard a rank; the same kernel on each.
rc::Program make_rank_sum() {
  return rc::Program("rank_sum", [](rc::Orchestrator& orch, const rc::Arguments& args) {
    for (int rank = 0; rank < orch.world_size(); ++rank) {
      orch.submit("rankcast.sum", rank,
                  rc::TaskArgs{}
                      .in(args[0].shard_on(rank))
                      .in(args[1].shard_on(rank))
                      .out(args[2].shard_on(rank)));
    }
  });
}

bool run(const char* devices) {
  rc::Mesh mesh = rc::Mesh::open({.devices = devices});
  const auto ranks = static_cast<std::size_t>(mesh.world_size());
  const rc::Shape shape{mesh.world_size(), kColumns};

  std::vector<float> weights(ranks * kColumns);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i);
  std::vector<float> inputs(weights.size(), 1.0F);
  std::vector<float> outputs(weights.size());

  // Uploaded once; they stay until they are freed or the mesh is closed.
  const rc::StackedDeviceTensor w = mesh.alloc_stacked(rc::HostView(weights.data(), shape));
  const rc::StackedDeviceTensor x = mesh.alloc_stacked(rc::HostView(inputs.data(), shape));
  const rc::StackedDeviceTensor y = mesh.alloc_stacked(shape, rc::DType::f32);

  const rc::Program rank_sum = make_rank_sum();
  const rc::Run run = mesh.submit(rank_sum, {w, x, y});  // checked, packed, published; returns
  run.wait();                                            // throws the run's first error
  mesh.download(y, rc::MutableHostView(outputs.data(), shape));

  const rc::RunReport report = run.report();
  for (const rc::RankReport& rank : report.ranks) {
    std::printf("rank %d entered after %.1f us\n", rank.rank, rank.entry_us);
  }
  std::printf("run %llu on %zu ranks: submit %.1f us, total %.1f us, entry spread %.1f us\n",
              static_cast<unsigned long long>(report.dispatch_id), ranks, report.submit_us,
              report.total_us, report.entry_spread_us);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] != weights[i] + inputs[i]) {
      std::fprintf(stderr, "element %zu is %g, not %g\n", i, static_cast<double>(outputs[i]),
                   static_cast<double>(weights[i] + inputs[i]));
      return false;
    }
  }
  mesh.free(w);
  mesh.free(x);
  mesh.free(y);
  return mesh.close().leaked_buffers == 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "cpu:0-7") ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank_sum: %s\n", error.what());
    return 3;
  }
}
