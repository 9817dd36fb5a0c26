// Random programs on a mesh give the bytes that running everything one after the other gives; and
// the programs that must be refused are refused, no others.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>

#include "mesh/program_generator.h"
#include "mesh/scenario_player.h"
#include "mesh/scenario_reducer.h"
#include "mesh/support.h"
#include "support/seed.h"

namespace rankcast::test {
namespace {

constexpr int kRanks = 4;
constexpr int kProgramsOfScenario = 10;

// What a scenario that hangs prints: it cannot be told to give up.
const char* hanging = "";
std::size_t hanging_bytes = 0;

void print_what_hangs(int /*signal*/) {
  const auto written = write(STDERR_FILENO, hanging, hanging_bytes);
  _exit(written < 0 ? 2 : 1);
}

/// Ends the process, and prints the text, if the scope takes longer than any test may.
class HangGuard {
 public:
  explicit HangGuard(std::string text) : text_("hangs:\n" + std::move(text)) {
    hanging = text_.data();
    hanging_bytes = text_.size();
    std::signal(SIGALRM, print_what_hangs);
    alarm(static_cast<unsigned>(kHangLimit.count()));
  }
  ~HangGuard() { alarm(0); }
  HangGuard(const HangGuard&) = delete;
  HangGuard& operator=(const HangGuard&) = delete;

 private:
  std::string text_;
};

class RandomProgramsOnEachLink : public OnEachLink {
 protected:
  static Mesh open() {
    MeshOptions options;
    options.devices = "cpu:0-3";
    options.link = GetParam();
    options.max_in_flight = 6;
    options.spin = std::chrono::microseconds(20);
    return Mesh::open(options);
  }

  void play_programs(int programs) {
    mesh_.load_kernels(RANKCAST_TEST_PROBE_KERNELS);
    const std::uint64_t seed = test_seed();
    int submitted = 0;
    int refused = 0;
    for (int scenarios = 0; scenarios < programs / kProgramsOfScenario; ++scenarios) {
      const std::uint64_t own_seed = seed + static_cast<std::uint64_t>(scenarios);
      const Scenario scenario = ProgramGenerator(own_seed, kRanks).make(kProgramsOfScenario);
      const std::string name = "RANKCAST_TEST_SEED=" + std::to_string(own_seed) + "\n";
      const auto play = [&](const Scenario& each) {
        const HangGuard guard(name + text_of(each));
        ScenarioPlayer player(mesh_, each);
        const std::optional<std::string> failure = player.play();
        submitted += player.submitted();
        refused += player.refused();
        return failure;
      };
      if (const std::optional<std::string> failure = play(scenario)) {
        std::cout << name << text_of(scenario) << *failure << '\n';
        const Scenario reduced = reduce(scenario, play);
        FAIL() << *failure << "\n" << name << "reduced to:\n" << text_of(reduced);
      }
      ASSERT_EQ(mesh_.stats().live_buffers, 0u) << name;
    }
    EXPECT_GE(submitted, programs);
    EXPECT_GT(refused, 0);
    RecordProperty("submitted", submitted);
    RecordProperty("refused", refused);
  }

  Mesh mesh_ = open();
};

TEST_P(RandomProgramsOnEachLink, GiveTheBytesOfASerialExecutor) { play_programs(500); }

INSTANTIATE_TEST_SUITE_P(Links, RandomProgramsOnEachLink, all_links(), name_of_link);

class ThoroughRandomProgramsOnEachLink : public RandomProgramsOnEachLink {};

TEST_P(ThoroughRandomProgramsOnEachLink, GiveTheBytesOfASerialExecutor) {
#ifdef RANKCAST_TEST_SANITIZED
  play_programs(1'000);
#else
  play_programs(10'000);
#endif
}

INSTANTIATE_TEST_SUITE_P(Links, ThoroughRandomProgramsOnEachLink, all_links(), name_of_link);

}  // namespace
}  // namespace rankcast::test
