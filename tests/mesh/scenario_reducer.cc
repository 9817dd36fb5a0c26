#include "mesh/scenario_reducer.h"

#include <set>

namespace rankcast::test {
namespace {

constexpr int kMostPlays = 4'000;
constexpr int kTries = 20;  // of what fails now and then

void leave_out_task(std::vector<ProgramTask>& tasks, std::size_t index) {
  tasks.erase(tasks.begin() + static_cast<std::ptrdiff_t>(index));
  for (std::size_t later = index; later < tasks.size(); ++later) {
    std::vector<std::size_t> kept;
    for (const std::size_t earlier : tasks[later].after) {
      if (earlier != index) kept.push_back(earlier > index ? earlier - 1 : earlier);
    }
    tasks[later].after = kept;
  }
}

/// True unless a buffer is used that was never allocated, or that a wait was left out which a
/// program with `no_dep` needs.
bool is_sound(const Scenario& scenario) {
  std::set<std::size_t> allocated;
  bool alone = false;  // the last thing submitted since a wait leaves tags out
  bool busy = false;
  const auto has = [&](const HostLayout& view) { return allocated.contains(view.buffer()); };
  for (const HostStep& step : scenario.steps) {
    for (const HostLayout& view : step.views) {
      if (!has(view)) return false;
    }
    if (step.kind == HostStep::Kind::renew) {
      for (const std::size_t each : renewed_with(scenario.buffers, step.buffer))
        allocated.insert(each);
    }
    if (step.kind == HostStep::Kind::compare || step.kind == HostStep::Kind::wait)
      busy = alone = false;
    if (step.kind != HostStep::Kind::submit) {
      if (alone) return false;
      continue;
    }
    bool leaves_out = false;
    for (const ProgramTask& task : step.tasks) {
      for (const ProgramArg& arg : task.args) {
        if (!has(arg.view)) return false;
        leaves_out = leaves_out || arg.tag == Tag::no_dep;
      }
    }
    if (alone || (leaves_out && busy)) return false;
    busy = true;
    alone = leaves_out;
    if (leaves_out && !no_dep_is_safe(step.tasks)) return false;
  }
  return true;
}

}  // namespace

Scenario reduce(Scenario scenario,
                const std::function<std::optional<std::string>(const Scenario&)>& play) {
  int plays = 0;
  const auto fails = [&](const Scenario& candidate) {
    if (!is_sound(candidate)) return false;
    for (int i = 0; i < kTries && plays < kMostPlays; ++i, ++plays) {
      if (play(candidate)) return true;
    }
    return false;
  };
  for (bool smaller = true; smaller && plays < kMostPlays;) {
    smaller = false;
    const auto take = [&](Scenario candidate) {
      if (!fails(candidate)) return false;
      scenario = std::move(candidate);
      smaller = true;
      return true;
    };
    // From the end, in pieces that become smaller.
    for (std::size_t piece = scenario.steps.size() / 2; piece > 0; piece /= 2) {
      for (std::size_t end = scenario.steps.size(); end > 0;) {
        const std::size_t begin = end > piece ? end - piece : 0;
        Scenario candidate = scenario;
        const auto first = candidate.steps.begin();
        candidate.steps.erase(first + static_cast<std::ptrdiff_t>(begin),
                              first + static_cast<std::ptrdiff_t>(end));
        take(std::move(candidate));
        end = begin;
      }
    }
    for (std::size_t at = scenario.steps.size(); at-- > 0;) {
      for (std::size_t task = scenario.steps[at].tasks.size(); task-- > 0;) {
        Scenario candidate = scenario;
        leave_out_task(candidate.steps[at].tasks, task);
        if (take(std::move(candidate))) continue;
        if (scenario.steps[at].tasks[task].after.empty()) continue;
        candidate = scenario;
        candidate.steps[at].tasks[task].after.clear();
        take(std::move(candidate));
      }
    }
  }
  return scenario;
}

}  // namespace rankcast::test
