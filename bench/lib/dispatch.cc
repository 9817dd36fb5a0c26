#include "bench/lib/dispatch.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "bench/lib/link_sides.h"

namespace rankcast::bench {

namespace {

constexpr int kWarmUpBlocks = 2;
constexpr int kLeadInRounds = 2;  // of a block, not timed: the side's ranks had gone to sleep
constexpr std::chrono::milliseconds kSettle{1};  // in which the other side's ranks go to sleep
constexpr std::chrono::milliseconds kWarmUpBudget{500};
constexpr std::chrono::milliseconds kCalibrationBudget{600};

using Contestant = LinkSides::Contestant;

// All sides of one run, alternating.
class Contest {
 public:
  Contest(const DispatchOptions& options, const Progress& progress);
  DispatchResult run();

 private:
  void open(const DispatchOptions& options);
  void enlist();
  void warm_up();
  void measure();
  void run_block(Contestant& contestant, int rounds);
  const RoundTimes& run_round(Contestant& contestant);
  void report_progress();
  void idle() const;

  // Tear-down, in this order (the reverse of the members): the contestants, which point at the
  // sides; the sides of each link; the job.
  DispatchResult result_;
  const Progress& progress_;
  std::uint64_t rounds_planned_ = 1;
  std::uint64_t rounds_run_ = 0;
  std::unique_ptr<Job> job_;
  std::vector<std::unique_ptr<LinkSides>> links_;
  std::vector<Contestant> contestants_;
};

Contest::Contest(const DispatchOptions& options, const Progress& progress) : progress_(progress) {
  result_.options = options;
  open(options);
}

void Contest::open(const DispatchOptions& options) {
  for (const std::string& link : links_of(options)) {
    Mesh mesh = Mesh::open(mesh_options(options, link));
    const int ranks = mesh.world_size();
    if (!job_) {
      job_ = options.safetensors.empty() ? make_sum_job(ranks, options.tensor_args)
                                         : make_checksum_job(ranks, options.safetensors);
    }
    links_.push_back(std::make_unique<LinkSides>(*job_, std::move(mesh), link, options));
  }
  result_.job = job_->name();
  result_.ranks = job_->ranks();
  result_.tensor_args = static_cast<int>(job_->tensors().size());
  result_.verified = links_.front()->result().verified;
  enlist();
  rounds_planned_ = static_cast<std::uint64_t>(options.rounds) * contestants_.size();
}

// A mesh is beside its reference, and with two links the two meshes are beside each other.
void Contest::enlist() {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (i % 2 == 0) contestants_.push_back(links_[i]->repacked());
    contestants_.push_back(links_[i]->mesh());
    if (i % 2 == 1) contestants_.push_back(links_[i]->repacked());
  }
  for (const std::unique_ptr<LinkSides>& link : links_) {
    if (std::optional<Contestant> minimum = link->minimum()) contestants_.push_back(*minimum);
  }
  for (const std::unique_ptr<LinkSides>& link : links_) contestants_.push_back(link->reused());
}

void Contest::report_progress() {
  if (!progress_) return;
  const double done = static_cast<double>(rounds_run_) / static_cast<double>(rounds_planned_);
  progress_(std::min(done, 1.0));
}

void Contest::idle() const {
  if (result_.options.gap_us == 0) return;
  std::this_thread::sleep_for(std::chrono::microseconds(result_.options.gap_us));
}

const RoundTimes& Contest::run_round(Contestant& contestant) {
  report_progress();
  contestant.side->prepare();
  idle();
  const RoundTimes& times = contestant.side->run_round();
  ++contestant.rounds;
  LinkResult& totals = *contestant.totals;
  if (contestant.mesh != nullptr) ++totals.dispatches;
  if (!totals.verified) return times;
  if (std::optional<Mismatch> mismatch = contestant.side->verify()) {
    ++result_.wrong_rounds;
    if (result_.verified.value()) {
      result_.wrong = WrongResult{contestant.name, contestant.rounds, std::move(*mismatch)};
    }
    result_.verified = false;
    totals.verified = false;
  }
  return times;
}

void Contest::warm_up() {
  for (const std::unique_ptr<LinkSides>& link : links_) {
    link->calibrate([this] { idle(); }, [this] { report_progress(); }, kCalibrationBudget);
  }
  for (int block = 0; block < kWarmUpBlocks; ++block) {
    for (Contestant& contestant : contestants_) {
      const base::Deadline deadline =
          base::Deadline::after(std::chrono::nanoseconds(kWarmUpBudget).count());
      for (int round = 0; round < kBlockRounds && !deadline.passed(); ++round) {
        run_round(contestant);
      }
    }
  }
}

void Contest::run_block(Contestant& contestant, int rounds) {
  std::this_thread::sleep_for(kSettle);
  for (int round = 0; round < kLeadInRounds; ++round) run_round(contestant);
  SideResult& result = *contestant.result;
  if (contestant.mesh != nullptr) contestant.mesh->count_submits(true);
  for (int round = 0; round < rounds; ++round) {
    const RoundTimes& times = run_round(contestant);
    ++rounds_run_;
    result.submit_us.add(times.submit_us);
    result.wait_us.add(times.wait_us);
    result.total_us.add(times.total_us);
    result.entry_spread_us.add(times.entry_spread_us);
    for (std::size_t rank = 0; rank < times.entry_us.size(); ++rank) {
      result.entry_us[rank].push_back(times.entry_us[rank]);
    }
  }
  if (contestant.mesh != nullptr) contestant.mesh->count_submits(false);
  result.submit_us.end_block();
  result.wait_us.end_block();
  result.total_us.end_block();
  result.entry_spread_us.end_block();
}

void Contest::measure() {
  for (int left = result_.options.rounds; left > 0; left -= kBlockRounds) {
    const int rounds = std::min(left, kBlockRounds);
    for (Contestant& contestant : contestants_) run_block(contestant, rounds);
    // Each side has each of the others before it equally often.
    std::reverse(contestants_.begin(), contestants_.end());
  }
}

std::optional<LinkRatios> process_over_thread(const std::vector<LinkResult>& links) {
  const auto find = [&](std::string_view name) {
    return std::ranges::find(links, name, &LinkResult::link);
  };
  const auto process = find("process");
  const auto thread = find("thread");
  if (process == links.end() || thread == links.end()) return std::nullopt;
  return LinkRatios{block_ratio(process->product.submit_us, thread->product.submit_us),
                    block_ratio(process->product.total_us, thread->product.total_us)};
}

DispatchResult Contest::run() {
  warm_up();
  measure();
  contestants_.clear();
  for (const std::unique_ptr<LinkSides>& link : links_) {
    result_.links.push_back(link->finish());
    result_.dispatches += result_.links.back().dispatches;
  }
  result_.process_over_thread = process_over_thread(result_.links);
  return std::move(result_);
}

}  // namespace

DispatchResult run_dispatch(const DispatchOptions& options, const Progress& progress) {
  check_options(options);
  return Contest(options, progress).run();
}

}  // namespace rankcast::bench
