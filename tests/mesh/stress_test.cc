// Free against submit (PROTOCOL P1), and everything at once from several threads. Kernels verify
// every value, so that a run over memory that was given back is seen: by the values of its next
// owner, by the poison, or by the sanitizers.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>

#include "mesh/support.h"

namespace rankcast::test {
namespace {

constexpr int kRanks = 2;
constexpr std::int64_t kElements = 64;

Mesh open(int max_in_flight) {
  MeshOptions options;
  options.devices = "cpu:0-1";
  options.max_in_flight = max_in_flight;
  options.spin = std::chrono::microseconds(20);
  return Mesh::open(options);
}

/// Registers `test.verify`: tensor i holds nothing but scalar i.
std::shared_ptr<std::atomic<std::int64_t>> add_verifier(Mesh& mesh) {
  auto verified = std::make_shared<std::atomic<std::int64_t>>(0);
  mesh.register_kernel("test.verify", [verified](const KernelCall& call) {
    for (std::size_t i = 0; i < call.tensors.size(); ++i) {
      const auto* values = static_cast<const std::int64_t*>(call.tensors[i].data);
      for (std::int64_t at = 0; at < kElements; ++at) {
        if (values[at] != call.scalars[i].value.i64) {
          throw std::runtime_error("element " + std::to_string(at) + " of tensor " +
                                   std::to_string(i) + " is " + std::to_string(values[at]) +
                                   ", wanted " + std::to_string(call.scalars[i].value.i64));
        }
      }
    }
    verified->fetch_add(1);
  });
  return verified;
}

struct Filled {
  DeviceTensor tensor;
  std::int64_t value = 0;
};

Filled fill_new(Mesh& mesh, int rank, std::int64_t value) {
  const std::vector<std::int64_t> host(static_cast<std::size_t>(kElements), value);
  return {mesh.alloc(rank, HostView(host.data(), {kElements})), value};
}

/// The tensors that a submitting and a freeing thread share.
class Shelf {
 public:
  static constexpr std::size_t kPlaces = 8;

  explicit Shelf(Mesh& mesh) : mesh_(mesh) {
    for (std::size_t place = 0; place < kPlaces; ++place)
      places_[place] = fill_new(mesh, rank_of(place), next_value_++);
  }
  static int rank_of(std::size_t place) { return static_cast<int>(place) % kRanks; }

  std::array<Filled, kPlaces> snapshot() const {
    const std::lock_guard lock(mutex_);
    return places_;
  }
  /// Puts another in a place, then frees what was there: only a submit that looked before has it.
  /// Most likely the next one that is made gets its memory and its slot.
  void replace(std::size_t place) {
    Filled other = fill_new(mesh_, rank_of(place), next_value_++);
    {
      const std::lock_guard lock(mutex_);
      std::swap(places_[place], other);
    }
    mesh_.free(other.tensor);
  }
  void free_all() {
    for (const Filled& filled : snapshot()) mesh_.free(filled.tensor);
  }

 private:
  Mesh& mesh_;
  mutable std::mutex mutex_;
  std::array<Filled, kPlaces> places_;
  std::int64_t next_value_ = 1;  // of the freeing thread
};

void free_against_submit(int submits) {
  Mesh mesh = open(4);
  const auto verified = add_verifier(mesh);
  Shelf shelf(mesh);
  std::atomic<bool> stop{false};
  std::atomic<int> replaced{0};
  std::thread freer([&] {
    std::minstd_rand random(1);
    while (!stop.load()) {
      shelf.replace(random() % Shelf::kPlaces);
      replaced.fetch_add(1);
    }
  });

  int accepted = 0;
  int refused = 0;
  // Most submits take their chance; some let tensors be freed at the worst of moments.
  enum class Pause { none, before_checks, after_checks };
  Pause pause = Pause::none;
  int replaced_before = 0;
  const auto let_two_be_replaced = [&] {
    EXPECT_TRUE(eventually([&] { return replaced.load() >= replaced_before + 2; }));
  };
  const Program program("verify", [&](Orchestrator& orch, const Arguments& args) {
    if (pause == Pause::before_checks) let_two_be_replaced();
    for (int rank = 0; rank < kRanks; ++rank) {
      TaskArgs task;
      for (std::size_t i = 0; i < Shelf::kPlaces; ++i) {
        if (Shelf::rank_of(i) == rank) task.in(args[2 * i]).scalar(args[2 * i + 1].scalar());
      }
      orch.submit("test.verify", rank, task);
    }
    if (pause == Pause::after_checks) let_two_be_replaced();
  });
  std::vector<rankcast::Run> runs;
  const auto wait_all = [&] {
    for (const rankcast::Run& run : runs) EXPECT_NO_THROW(run.wait());
    runs.clear();
  };
  for (int i = 0; i < submits && !::testing::Test::HasFailure(); ++i) {
    pause = i % 32 == 9 ? Pause::before_checks : i % 32 == 25 ? Pause::after_checks : Pause::none;
    std::vector<Argument> arguments;
    const auto snapshot = shelf.snapshot();
    replaced_before = replaced.load();
    for (const Filled& filled : snapshot) {
      arguments.emplace_back(filled.tensor);
      arguments.emplace_back(filled.value);
    }
    try {
      runs.push_back(mesh.submit(program, arguments));
      EXPECT_EQ(pause, Pause::none) << "a tensor of it was freed before it was published";
      ++accepted;
    } catch (const Error& error) {
      EXPECT_EQ(error_code_name(error.code()), "stale_tensor") << error.what();
      EXPECT_TRUE(error.rank() && error.argument()) << error.what();
      ++refused;
    }
    if (runs.size() == 3) wait_all();
  }
  wait_all();
  stop.store(true);
  freer.join();
  EXPECT_EQ(verified->load(), std::int64_t{accepted} * kRanks);
  EXPECT_GT(accepted, 0);
  EXPECT_GT(refused, 0);
  ::testing::Test::RecordProperty("accepted", accepted);
  ::testing::Test::RecordProperty("refused", refused);
  ::testing::Test::RecordProperty("replaced", replaced.load());
  std::printf("%d submits: %d accepted, %d refused; %d tensors freed meanwhile\n", submits,
              accepted, refused, replaced.load());
  shelf.free_all();
  EXPECT_EQ(mesh.stats().live_buffers, 0u);
  EXPECT_EQ(mesh.stats().live_bytes, 0u);
  EXPECT_TRUE(eventually([&] { return mesh.stats().deferred_bytes == 0; }));
}

TEST(MeshStress, FreedWhileSubmitting) { free_against_submit(5'000); }
TEST(ThoroughMeshStress, FreedWhileSubmitting) { free_against_submit(100'000); }

/// One thread's life with tensors of its own.
void live(Mesh& mesh, int thread, int rounds) {
  std::minstd_rand random(static_cast<unsigned>(thread) + 1);
  std::vector<Filled> mine;
  const Program program("verify_one", [](Orchestrator& orch, const Arguments& args) {
    orch.submit("test.verify", args[0].rank(), TaskArgs{}.in(args[0]).scalar(args[1].scalar()));
  });
  std::optional<rankcast::Run> last;
  for (int round = 0; round < rounds && !::testing::Test::HasFailure(); ++round) {
    const std::int64_t value = std::int64_t{thread} * 1'000'000 + round;
    mine.push_back(fill_new(mesh, static_cast<int>(random() % kRanks), value));
    const std::size_t which = random() % mine.size();
    Filled& chosen = mine[which];
    switch (random() % 5) {
      case 0: {
        const std::vector<std::int64_t> host(static_cast<std::size_t>(kElements), -value);
        mesh.upload(chosen.tensor, HostView(host.data(), {kElements}));
        chosen.value = -value;
        break;
      }
      case 1:
        EXPECT_EQ(values_of<std::int64_t>(mesh, chosen.tensor),
                  std::vector<std::int64_t>(static_cast<std::size_t>(kElements), chosen.value));
        break;
      case 2:
        // Freed at once: what was submitted still sees its values.
        last = mesh.submit(program, {chosen.tensor, chosen.value});
        mesh.free(chosen.tensor);
        expect_error(ErrorCode::stale_tensor, {"freed"},
                     [&] { mesh.submit(program, {chosen.tensor, chosen.value}); });
        mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(which));
        break;
      case 3:
        mesh.submit(program, {chosen.tensor, chosen.value}).wait();
        break;
      default:
        if (last) last->wait();
        last = mesh.submit(program, {chosen.tensor, chosen.value});
        break;
    }
  }
  if (last) last->wait();
  for (const Filled& filled : mine) mesh.free(filled.tensor);
}

void live_together(int rounds) {
  Mesh mesh = open(3);
  const auto verified = add_verifier(mesh);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] { EXPECT_NO_THROW(live(mesh, thread, rounds)); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(verified->load(), 0);
  EXPECT_TRUE(eventually(
      [&] { return mesh.stats().runs_in_flight == 0 && mesh.stats().deferred_bytes == 0; }));
  EXPECT_EQ(mesh.stats().live_buffers, 0u);
  EXPECT_EQ(mesh.stats().live_bytes, 0u);
  const CloseReport report = mesh.close();
  EXPECT_EQ(report.leaked_buffers + report.leaked_bytes, 0u);
}

TEST(MeshStress, FourThreadsDoEverything) { live_together(300); }
TEST(ThoroughMeshStress, FourThreadsDoEverything) { live_together(5'000); }

}  // namespace
}  // namespace rankcast::test

// Freed memory is overwritten, so that its use is seen without a sanitizer too. Read at the first
// free.
int main(int argc, char** argv) {
  setenv("RANKCAST_POISON", "1", 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
