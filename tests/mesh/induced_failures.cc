#include "mesh/induced_failures.h"

#include <array>
#include <atomic>
#include <filesystem>
#include <limits>
#include <utility>

#include "base/fault_point.h"
#include "mesh/probe_gates.h"
#include "mesh/support.h"
#include "support/scoped_variable.h"
#include "support/temp_folder.h"

namespace rankcast::test {
namespace {

using std::chrono::milliseconds;

/// Does something at the end of a scope.
class AtEnd {
 public:
  explicit AtEnd(std::function<void()> act) : act_(std::move(act)) {}
  ~AtEnd() { act_(); }
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;

 private:
  std::function<void()> act_;
};

Mesh two_ranks(const std::string& link = "thread") {
  return Mesh::open({.devices = "cpu:0-1", .link = link});
}

std::string library(const std::string& name) { return RANKCAST_TEST_LIBRARIES "/" + name + ".so"; }

/// A submit of one program.
void submit(Mesh& mesh, Program::Function function, std::vector<Argument> arguments = {}) {
  mesh.submit(Program("example", std::move(function)), arguments).wait();
}

class Catalogue {
 public:
  /// `fail` throws.
  void add(ErrorCode code, std::string title, std::function<void()> fail) {
    all_.push_back({code, std::move(title), [fail = std::move(fail)] {
                      fail();
                      return std::string();
                    }});
  }
  /// `make` returns a message that is no error.
  void add(std::string title, std::function<std::string()> make) {
    all_.push_back({std::nullopt, std::move(title), std::move(make)});
  }
  std::vector<Induced> take() { return std::move(all_); }

 private:
  std::vector<Induced> all_;
};

void add_open(Catalogue& all) {
  const auto refused = [&](const std::string& title, const MeshOptions& options) {
    all.add(ErrorCode::invalid_argument, title, [options] { Mesh::open(options); });
  };
  refused("a device string with a fault", {.devices = "cpu:0,,1"});
  refused("a kind of device that nobody has", {.devices = "gpu:0"});
  refused("a device twice", {.devices = "cpu:0-3,cpu:2"});
  refused("a link that nobody has", {.link = "pigeon"});
  refused("an option out of its range", {.max_in_flight = 0});
  refused(
      "a time that is none",
      {.startup_timeout = std::chrono::duration<double>(std::numeric_limits<double>::quiet_NaN())});
  all.add(ErrorCode::invalid_argument, "an environment variable that means nothing", [] {
    const ScopedVariable variable("RANKCAST_WATCHDOG_MS", "soon");
    Mesh::open();
  });
}

void add_memory(Catalogue& all) {
  const auto bad = [&](const std::string& title, std::function<void(Mesh&)> call) {
    all.add(ErrorCode::invalid_argument, title, [call = std::move(call)] {
      Mesh mesh = two_ranks();
      call(mesh);
    });
  };
  bad("a rank that does not exist", [](Mesh& mesh) { mesh.alloc(7, {4}, DType::f32); });
  bad("an extent of nothing", [](Mesh& mesh) { mesh.alloc(0, {4, 0}, DType::f32); });
  bad("more shards than ranks", [](Mesh& mesh) { mesh.alloc_stacked({3, 4}, DType::f32); });
  bad("a stack of one dimension", [](Mesh& mesh) { mesh.alloc_stacked({2}, DType::f32); });
  bad("two shards on one rank",
      [](Mesh& mesh) { mesh.alloc_stacked({2, 4}, DType::f32, std::vector<int>{1, 1}); });
  bad("host memory of another shape", [](Mesh& mesh) {
    const std::vector<float> host(5);
    mesh.upload(mesh.alloc(0, {4}, DType::f32), HostView(host.data(), {5}));
  });
  bad("a shard freed alone", [](Mesh& mesh) {
    const StackedDeviceTensor stack = mesh.alloc_stacked({2, 4}, DType::f32);
    mesh.free(stack[0]);
  });
}

void add_submits(Catalogue& all) {
  const auto bad = [&](const std::string& title, Program::Function function) {
    all.add(ErrorCode::invalid_argument, title, [function = std::move(function)] {
      Mesh mesh = two_ranks();
      submit(mesh, function, {mesh.alloc_stacked({2, 4}, DType::f32), 3});
    });
  };
  all.add(ErrorCode::invalid_argument, "wrong shape", [] {
    Mesh mesh = two_ranks();
    submit(mesh,
           [](Orchestrator& orch, const Arguments& args) {
             orch.submit("rankcast.sum", 1,
                         TaskArgs{}.in(args[0].shard_on(1)).out(args[1].shard_on(1)));
           },
           {mesh.alloc_stacked({2, 4}, DType::f32), mesh.alloc_stacked({2, 5}, DType::f32)});
  });
  bad("missing kernel",
      [](Orchestrator& orch, const Arguments&) { orch.submit("rankcast.sun", 0, TaskArgs{}); });
  bad("a task for a rank that does not exist",
      [](Orchestrator& orch, const Arguments&) { orch.submit("rankcast.sum", 2, TaskArgs{}); });
  bad("a whole stack given to a task", [](Orchestrator& orch, const Arguments& args) {
    orch.submit("rankcast.fill", 0, TaskArgs{}.out(args[0]).scalar(1.0));
  });
  bad("a scalar where a tensor is wanted", [](Orchestrator& orch, const Arguments& args) {
    orch.submit("rankcast.fill", 0, TaskArgs{}.out(args[1]).scalar(1.0));
  });
  bad("an argument that the submit does not have",
      [](Orchestrator&, const Arguments& args) { args[2].rank(); });
  bad("a shard that is not there", [](Orchestrator&, const Arguments& args) { args[0][5].rank(); });
  all.add(ErrorCode::invalid_argument, "a submit inside an orchestration function", [] {
    Mesh mesh = two_ranks();
    submit(mesh, [&](Orchestrator&, const Arguments&) {
      mesh.submit(launch_on("rankcast.sum", {}), {});
    });
  });
  all.add(ErrorCode::invalid_argument, "a run that is empty", [] { rankcast::Run().wait(); });
  all.add(ErrorCode::invalid_argument, "a report before the run is done", [] {
    Mesh mesh = two_ranks();
    const auto gate = add_gate(mesh);
    const OpenAtEnd open_at_end(gate);
    mesh.submit(launch_on("test.gate", {0}), {}).report();
  });
}

void add_libraries(Catalogue& all) {
  const auto refused = [&](const std::string& title, const std::string& name) {
    all.add(ErrorCode::invalid_argument, title,
            [name] { two_ranks().load_kernels(library(name)); });
  };
  refused("foreign library, of another kernel ABI", "other_abi");
  refused("a shared library without kernels", "no_symbol");
  refused("a library with a symbol that nobody has", "missing_dependency");
  refused("a kernel library that is not there", "none");
  all.add(ErrorCode::invalid_argument, "foreign library, with another digest on a rank", [] {
    const TempFolder folder;
    const std::string copy = folder.path("probe.so");
    std::filesystem::copy_file(RANKCAST_TEST_PROBE_KERNELS, copy);
    Mesh mesh = two_ranks("process");
    const ScopedVariable changes("RANKCAST_TEST_PROBE_APPENDS", copy);
    mesh.load_kernels(copy);
  });
  all.add(ErrorCode::invalid_argument, "a kernel name that is taken", [] {
    Mesh mesh = two_ranks();
    mesh.load_kernels(library("good"));
    mesh.load_kernels(library("good_later"));
  });
  all.add(ErrorCode::invalid_argument, "a name that no kernel may have",
          [] { two_ranks().register_kernel("Fill", [](const KernelCall&) {}); });
}

void add_handles(Catalogue& all) {
  const auto fills = [](Orchestrator& orch, const Arguments& args) {
    orch.submit("rankcast.fill", 1, TaskArgs{}.out(args[0].shard_on(1)).scalar(1.0));
  };
  all.add(ErrorCode::stale_tensor, "stale argument", [fills] {
    Mesh mesh = two_ranks();
    const StackedDeviceTensor stack = mesh.alloc_stacked({2, 4}, DType::f32);
    mesh.free(stack);
    submit(mesh, fills, {stack});
  });
  all.add(ErrorCode::stale_tensor, "a stale tensor of a transfer", [] {
    Mesh mesh = two_ranks();
    const DeviceTensor tensor = mesh.alloc(1, {4}, DType::f32);
    mesh.free(tensor);
    values_of(mesh, tensor);
  });
  all.add(ErrorCode::foreign_tensor, "a tensor of another mesh", [fills] {
    Mesh mesh = two_ranks();
    Mesh other = two_ranks();
    submit(mesh, fills, {other.alloc_stacked({2, 4}, DType::f32)});
  });
  all.add(ErrorCode::wrong_rank, "a tensor of another rank", [] {
    Mesh mesh = two_ranks();
    const DeviceTensor tensor = mesh.alloc(1, {4}, DType::f32);
    submit(mesh, [&](Orchestrator& orch, const Arguments&) {
      orch.submit("rankcast.fill", 0, TaskArgs{}.out(tensor).scalar(1.0));
    });
  });
  all.add(ErrorCode::wrong_rank, "a stack without a shard on the rank", [fills] {
    Mesh mesh = two_ranks();
    submit(mesh, fills, {mesh.alloc_stacked({1, 4}, DType::f32)});
  });
}

/// What a fault point makes of an open, or of a first allocation.
void fail_at(const char* point, const std::string& link, std::uint32_t skip = 0) {
  Mesh mesh = two_ranks(link);
  const AtEnd disarm([] { base::disarm_all_fault_points(); });
  base::arm_fault_point(point, skip);
  if (std::string(point).starts_with("link.")) {
    two_ranks(link);
  } else {
    mesh.alloc(0, {4}, DType::f32);
  }
}

void add_exhaustion(Catalogue& all) {
  all.add(ErrorCode::out_of_memory, "more memory than there is address space",
          [] { two_ranks().alloc(0, {std::int64_t{1} << 50}, DType::u8); });
  all.add(ErrorCode::out_of_memory, "full table", [] { fail_at("base.table_full", "thread"); });
  all.add(ErrorCode::out_of_memory, "no descriptor left", [] { fail_at("base.memfd", "process"); });
  all.add(ErrorCode::out_of_memory, "no thread to be had",
          [] { fail_at("link.start_thread", "thread", 1); });
  all.add(ErrorCode::out_of_memory, "too many kernels", [] {
    Mesh mesh = two_ranks();
    for (int i = 0; i <= 4096; ++i) {
      mesh.register_kernel("test.k" + std::to_string(i), [](const KernelCall&) {});
    }
  });
}

void add_ends(Catalogue& all) {
  all.add(ErrorCode::deadline_exceeded, "silent rank at open", [] {
    const TempFolder folder;
    const std::string program =
        folder.write("silent", "#!/bin/sh\necho still warming up; exec sleep 3600\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    MeshOptions options{.devices = "cpu:0-1", .link = "process"};
    options.rank_binary = program;
    options.startup_timeout = milliseconds(300);
    Mesh::open(options);
  });
  all.add(ErrorCode::deadline_exceeded, "stuck kernel at close, on link thread", [] {
    Mesh mesh = two_ranks();
    const auto gate = add_gate(mesh);
    const OpenAtEnd open_at_end(gate);
    const rankcast::Run run = mesh.submit(launch_on("test.gate", {1}), {});
    gate->wait_entered(1);
    if (run.wait_for(milliseconds(1))) return;
    mesh.close(milliseconds(1));
  });
  all.add(ErrorCode::deadline_exceeded, "stuck kernel at close, on link process", [] {
    const ProbeGates gates;
    Mesh mesh = two_ranks("process");
    const AtEnd open_at_end([&] { gates.open_all(); });
    mesh.load_kernels(RANKCAST_TEST_PROBE_KERNELS);
    const rankcast::Run run = mesh.submit(ProbeGates::program(0, {1}), {});
    if (!gates.entered(0) || run.wait_for(milliseconds(1))) return;
    mesh.close(milliseconds(1));
  });
  all.add(ErrorCode::deadline_exceeded, "a second closer that runs out of time", [] {
    Mesh mesh = two_ranks();
    const auto gate = add_gate(mesh);
    const rankcast::Run run = mesh.submit(launch_on("test.gate", {1}), {});
    gate->wait_entered(1);
    std::thread closer([&] { mesh.close(kHangLimit); });
    const AtEnd join([&] {
      gate->open();
      closer.join();
    });
    eventually([&] {
      try {
        mesh.stats();
        return false;
      } catch (const Error&) {
        return true;
      }
    });
    mesh.close(milliseconds(1));
  });
  all.add(ErrorCode::invalid_argument, "a budget that is none",
          [] { two_ranks().close(std::chrono::seconds(-1)); });
  all.add(ErrorCode::closed, "a mesh that is closed", [] {
    Mesh mesh = two_ranks();
    mesh.close();
    mesh.alloc(0, {4}, DType::f32);
  });
  all.add(ErrorCode::closed, "a mesh that was moved from", [] {
    Mesh mesh = two_ranks();
    const Mesh other = std::move(mesh);
    // NOLINTNEXTLINE(bugprone-use-after-move): that is what is shown
    mesh.alloc(0, {4}, DType::f32);
  });
}

void add_runs(Catalogue& all) {
  all.add(ErrorCode::task_failed, "a kernel that fails", [] {
    Mesh mesh = two_ranks();
    mesh.register_kernel("demo.negate",
                         [](const KernelCall&) { throw std::runtime_error("no negative zero"); });
    mesh.submit(launch_on("demo.negate", {1}), {}).wait();
  });
  all.add(ErrorCode::task_failed, "a kernel that cannot be prepared", [] {
    Mesh mesh = two_ranks();
    mesh.load_kernels(RANKCAST_TEST_PROBE_KERNELS);
    mesh.submit(launch_on("probe.refuses", {0}), {}).wait();
  });
  all.add(ErrorCode::undefined_contents, "undefined contents", [] {
    Mesh mesh = two_ranks();
    const DeviceTensor spoilt = mesh.alloc(1, {4}, DType::f32);
    const DeviceTensor other = mesh.alloc(1, {4}, DType::f32);
    mesh.register_kernel("demo.negate", [](const KernelCall&) { throw std::runtime_error("no"); });
    try {
      submit(mesh, [&](Orchestrator& orch, const Arguments&) {
        orch.submit("demo.negate", 1, TaskArgs{}.out(spoilt));
      });
    } catch (const Error&) {
      submit(mesh, [&](Orchestrator& orch, const Arguments&) {
        orch.submit("rankcast.copy", 1, TaskArgs{}.in(spoilt).out(other));
      });
    }
  });
  all.add(ErrorCode::task_failed, "a member of a group that fails", [] {
    Mesh mesh = two_ranks();
    mesh.register_kernel("demo.meet", [](const KernelCall& call) {
      if (call.context.rank == 1) throw std::runtime_error("the scales are not the same");
      std::atomic_ref abort(*const_cast<std::uint32_t*>(call.context.abort_word));
      while (abort.load() == 0) std::this_thread::yield();
      throw std::runtime_error("told to give up");
    });
    submit(mesh, [](Orchestrator& orch, const Arguments&) {
      const std::array<TaskArgs, 2> arguments;
      orch.submit_group("demo.meet", std::array{0, 1}, arguments);
    });
  });
  all.add(ErrorCode::cancelled, "a run that was cancelled", [] {
    Mesh mesh = two_ranks();
    const auto gate = add_gate(mesh);
    const OpenAtEnd open_at_end(gate);
    rankcast::Run run = mesh.submit(launch_on("test.gate", {1, 1}), {});
    gate->wait_entered(1);
    run.cancel();
    gate->open();
    run.wait();
  });
  const auto dies = [](Mesh& mesh) {
    mesh.load_kernels(RANKCAST_TEST_PROBE_KERNELS);
    const DeviceTensor tensor = mesh.alloc(1, {1}, DType::i64);
    submit(mesh, [&](Orchestrator& orch, const Arguments&) {
      orch.submit("probe.dies", 1, TaskArgs{}.out(tensor));
    });
  };
  all.add(ErrorCode::rank_lost, "dead rank, to whoever waits", [dies] {
    Mesh mesh = two_ranks("process");
    dies(mesh);
  });
  all.add(ErrorCode::rank_lost, "dead rank, to whoever names it", [dies] {
    Mesh mesh = two_ranks("process");
    try {
      dies(mesh);
    } catch (const Error&) {
      mesh.alloc(1, {4}, DType::f32);
    }
  });
}

void add_installation(Catalogue& all) {
  all.add(ErrorCode::unsupported, "a function as a kernel of other processes",
          [] { two_ranks("process").register_kernel("demo.negate", [](const KernelCall&) {}); });
  all.add(ErrorCode::unsupported, "a restart where ranks are threads",
          [] { two_ranks().restart_rank(1); });
  all.add(ErrorCode::unsupported, "the program of process ranks is missing", [] {
    const ScopedVariable variable("RANKCAST_RANK_BINARY", "/no/such/program");
    two_ranks("process");
  });
  all.add(ErrorCode::unsupported, "the built-in kernels are missing", [] {
    const ScopedVariable variable("RANKCAST_KERNEL_LIBRARY", "/no/such/library");
    two_ranks();
  });
  all.add(ErrorCode::internal, "a system that refuses what it must not",
          [] { fail_at("base.memfd_seal", "process"); });
}

}  // namespace

std::vector<Induced> induced_failures() {
  Catalogue all;
  add_open(all);
  add_memory(all);
  add_submits(all);
  add_libraries(all);
  add_handles(all);
  add_exhaustion(all);
  add_ends(all);
  add_runs(all);
  add_installation(all);
  all.add("leak at close", [] {
    Mesh mesh = two_ranks();
    mesh.alloc_stacked({2, 4}, DType::f32);
    mesh.alloc(1, {100}, DType::f32);
    return mesh.close().leak_message;
  });
  return all.take();
}

}  // namespace rankcast::test
