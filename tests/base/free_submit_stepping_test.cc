// PROTOCOL P1, all schedules: no run is published with a dead handle, and no memory returns under a
// published run.
//
// The model holds what P1 names: one slot's generation (read without the lock, relaxed), the mesh's
// epoch, the lane's last published value, and the mutex. A free returns memory once the lane has
// reached the value it noted, so a published run is safe exactly if every free that follows its
// check notes its value.
#include <gtest/gtest.h>

#include "base/atomic.h"
#include "base/stepping_atomic.h"
#include "base/stepping_report.h"

namespace rankcast::base::stepping {
namespace {

constexpr const char* kDead = "the final check failed";
constexpr std::uint32_t kLive = 1;
constexpr std::uint64_t kRefused = 99;

enum class Rule {
  as_it_should,
  no_epoch,         // the check before the mutex is believed
  no_mutex,         // release and acquire alone
  epoch_before_it,  // free bumps the epoch before the generation
};

template <class EpochAtomics>
struct Mesh {
  Faithful::Word32 generation{kLive};
  typename EpochAtomics::Word64 epoch{};
  Faithful::Word64 published{};
  SteppedMutex mutex;

  Mesh() {
    generation.mark_for_stale_loads();
    epoch.mark_for_stale_loads();
    published.mark_for_stale_loads();
  }

  // relaxed: as in GenerationTable::live
  bool live() const { return load_relaxed(generation) == kLive; }

  // Returns the run's number, or kRefused.
  std::uint64_t submit(Rule rule) {
    const std::uint64_t checked_at = load_acquire(epoch);
    if (!live()) return kRefused;
    if (rule == Rule::no_mutex) {
      store_release(published, 1);
      return 1;
    }
    mutex.lock();
    // relaxed: under the mutex
    const bool moved = rule != Rule::no_epoch && load_relaxed(epoch) != checked_at;
    if (moved && !live()) {
      mutex.unlock();
      return kRefused;
    }
    const std::uint64_t run = load_relaxed(published) + 1;
    store_relaxed(published, run);
    mutex.unlock();
    return run;
  }

  // Returns the value noted for the lane, or kRefused if there was nothing to free.
  std::uint64_t free(Rule rule) {
    if (rule == Rule::no_mutex) {
      store_release(generation, kLive + 1);
      return load_acquire(published);
    }
    mutex.lock();
    if (!live()) {
      mutex.unlock();
      return kRefused;
    }
    if (rule == Rule::epoch_before_it) store_release(epoch, load_relaxed(epoch) + 1);
    store_relaxed(generation, kLive + 1);
    if (rule != Rule::epoch_before_it) store_release(epoch, load_relaxed(epoch) + 1);
    const std::uint64_t noted = load_relaxed(published);
    mutex.unlock();
    return noted;
  }
};

template <class EpochAtomics>
Exploration race(Rule rule, int submitters, int freers) {
  Stepper stepper;
  Mesh<EpochAtomics> mesh;
  for (int i = 0; i < submitters; ++i) {
    stepper.add_thread([&mesh, rule] { return mesh.submit(rule); });
  }
  for (int i = 0; i < freers; ++i) {
    stepper.add_thread([&mesh, rule] { return mesh.free(rule); });
  }
  stepper.set_final_check([submitters, freers](const Stepper::Results& results) {
    std::uint64_t noted = kRefused;
    int freed = 0;
    for (int i = submitters; i < submitters + freers; ++i) {
      if (results[static_cast<std::size_t>(i)] == kRefused) continue;
      noted = results[static_cast<std::size_t>(i)];
      ++freed;
    }
    bool covered = true;
    for (int i = 0; i < submitters; ++i) {
      const std::uint64_t run = results[static_cast<std::size_t>(i)];
      covered = covered && (run == kRefused || run <= noted);
    }
    return freed == 1 && covered;
  });
  return stepper.explore();
}

using RelaxedEpoch = SteppedAtomics<Weakening::none, Weakening::all_to_relaxed>;

TEST(FreeSubmitSteppingTest, OneSubmitOneFree) {
  expect_good(race<Faithful>(Rule::as_it_should, 1, 1));
}

TEST(FreeSubmitSteppingTest, TwoSubmitsOneFree) {
  expect_good(race<Faithful>(Rule::as_it_should, 2, 1));
}

TEST(FreeSubmitSteppingTest, OneSubmitTwoFrees) {
  expect_good(race<Faithful>(Rule::as_it_should, 1, 2));
}

TEST(FreeSubmitSteppingTest, MutantNoMutex) {
  expect_found(race<Faithful>(Rule::no_mutex, 1, 1), kDead);
}

TEST(FreeSubmitSteppingTest, MutantNoEpoch) {
  expect_found(race<Faithful>(Rule::no_epoch, 1, 1), kDead);
}

TEST(FreeSubmitSteppingTest, MutantEpochBeforeGeneration) {
  expect_found(race<Faithful>(Rule::epoch_before_it, 1, 1), kDead);
}

TEST(FreeSubmitSteppingTest, MutantEpochRelaxed) {
  expect_found(race<RelaxedEpoch>(Rule::as_it_should, 1, 1), kDead);
}

}  // namespace
}  // namespace rankcast::base::stepping
