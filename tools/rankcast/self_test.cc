#include "tools/rankcast/self_test.h"

#include <fmt/core.h>

#include <chrono>
#include <cstddef>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

#include "rankcast/rankcast.h"

namespace rankcast::tools {

namespace {

constexpr int kRanks = 2;
constexpr std::int64_t kElements = 1024;

/// A sum that is not the sum.
struct WrongResult : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void sum_on_each_rank(Mesh& mesh) {
  std::vector<float> first(kRanks * kElements);
  std::vector<float> second(first.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    first[i] = static_cast<float>(i);
    second[i] = static_cast<float>(2 * i + 1);
  }
  const Shape shape{kRanks, kElements};
  const StackedDeviceTensor a = mesh.alloc_stacked(HostView(first.data(), shape));
  const StackedDeviceTensor b = mesh.alloc_stacked(HostView(second.data(), shape));
  const StackedDeviceTensor sum = mesh.alloc_stacked(shape, DType::f32);
  const Program program("self_test", [](Orchestrator& orch, const Arguments& args) {
    for (int rank = 0; rank < orch.world_size(); ++rank) {
      orch.submit("rankcast.sum", rank,
                  TaskArgs{}
                      .in(args[0].shard_on(rank))
                      .in(args[1].shard_on(rank))
                      .out(args[2].shard_on(rank)));
    }
  });
  mesh.submit(program, {a, b, sum}).wait();
  std::vector<float> found(first.size());
  mesh.download(sum, MutableHostView(found.data(), shape));
  for (std::size_t i = 0; i < found.size(); ++i) {
    const float wanted = first[i] + second[i];
    if (found[i] != wanted) {
      throw WrongResult(fmt::format("element {} of rank {} is {}, not {}",
                                    static_cast<std::int64_t>(i) % kElements,
                                    static_cast<std::int64_t>(i) / kElements, found[i], wanted));
    }
  }
  mesh.free(a);
  mesh.free(b);
  mesh.free(sum);
}

const char* advice_for(const std::string& link) {
  return link == "process"
             ? "see the lines above: limits, shared memory, the rank program; nothing of a process "
               "rank works before this does"
             : "see the lines above: limits, built-in kernels, cores; nothing works before this "
               "does";
}

Check test_now(const std::string& link) {
  using std::chrono::steady_clock;
  const auto begin = steady_clock::now();
  try {
    MeshOptions options;
    options.devices = fmt::format("cpu:0-{}", kRanks - 1);
    options.link = link;
    options.startup_timeout = kSelfTestLimit;
    options.close_timeout = kSelfTestLimit;
    Mesh mesh = Mesh::open(options);
    sum_on_each_rank(mesh);
    mesh.close();
  } catch (const WrongResult& wrong) {
    return failed(link, wrong.what(), "do not use this machine: a sum came out wrong",
                  kExitWrongResult);
  } catch (const Error& error) {
    return failed(link, error.what(), advice_for(link),
                  error.code() == ErrorCode::deadline_exceeded ? kExitTimeout : kExitEnvironment);
  } catch (const std::exception& error) {
    return failed(link, error.what(), advice_for(link));
  }
  const std::chrono::duration<double, std::milli> took = steady_clock::now() - begin;
  return good(link, fmt::format("{} ranks opened, summed {} elements each, closed in {:.0f} ms",
                                kRanks, kElements, took.count()));
}

}  // namespace

Check test_link(const std::string& link, bool* stuck) {
  std::packaged_task<Check()> task([link] { return test_now(link); });
  std::future<Check> result = task.get_future();
  std::thread thread(std::move(task));
  if (result.wait_for(kSelfTestLimit) == std::future_status::ready) {
    thread.join();
    return result.get();
  }
  thread.detach();
  *stuck = true;
  return failed(link, fmt::format("no end within {} s", kSelfTestLimit.count()),
                "is the machine overloaded, or a rank stopped? look at its processes and try again",
                kExitTimeout);
}

}  // namespace rankcast::tools
