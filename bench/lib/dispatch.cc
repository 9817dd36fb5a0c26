#include "bench/lib/dispatch.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "bench/lib/kernel_library.h"
#include "rankcast/error.h"

namespace rankcast::bench {

namespace {

constexpr int kMaxRounds = 10'000'000;
constexpr int kMaxTensorArgs = 65'536;
constexpr std::int64_t kMaxGapUs = 60'000'000;
constexpr std::uint64_t kMaxLiveBuffers = 1'000'000'000;
constexpr int kWarmUpBlocks = 2;
constexpr int kLeadInRounds = 2;  // of a block, not timed: the side's ranks had gone to sleep
constexpr std::chrono::milliseconds kSettle{1};  // in which the other side's ranks go to sleep
constexpr std::chrono::milliseconds kWarmUpBudget{500};
constexpr std::chrono::milliseconds kCalibrationBudget{600};

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

constexpr std::array kBetween{std::pair{"nothing", Between::nothing},
                              std::pair{"free", Between::free},
                              std::pair{"rotate", Between::rotate}};

std::optional<Between> find_between(std::string_view name) {
  const auto found = std::ranges::find(kBetween, name, [](const auto& pair) { return pair.first; });
  if (found == kBetween.end()) return std::nullopt;
  return found->second;
}

// One side with its name and what it has measured.
struct Contestant {
  std::string name;
  Side* side;          // owned by Contest
  SideResult* result;  // the same
  Product* mesh;       // the side if it is a mesh
  std::uint64_t rounds = 0;
};

// All sides of one run, alternating.
class Contest {
 public:
  Contest(const DispatchOptions& options, const Progress& progress);
  DispatchResult run();

 private:
  void open(const DispatchOptions& options);
  void warm_up();
  void measure();
  void run_block(Contestant& contestant, int rounds);
  const RoundTimes& run_round(Contestant& contestant);
  void report_progress();
  void idle() const;

  // Tear-down, in this order (the reverse of the members): the contestants, which point at all the
  // others; the mesh without spares; the mesh; the reference and its rounds; the kernels; the job.
  DispatchResult result_;
  DispatchResult::Minimum minimum_result_;
  const Progress& progress_;
  std::uint64_t rounds_planned_ = 1;
  std::uint64_t rounds_run_ = 0;
  std::unique_ptr<Job> job_;
  std::optional<KernelLibrary> kernels_;
  std::unique_ptr<Rounds> reference_rounds_;
  std::unique_ptr<Reference> reference_;
  std::unique_ptr<ReferenceSide> repacked_;
  std::unique_ptr<ReferenceSide> reused_;
  std::unique_ptr<Product> product_;
  std::unique_ptr<Product> minimum_;
  std::vector<Contestant> contestants_;
};

MeshOptions mesh_options(const DispatchOptions& options) {
  MeshOptions mesh;
  mesh.devices = options.devices;
  mesh.link = options.link;
  return mesh;
}

base::SpinPolicy reference_spin(int ranks) {
  const auto spin = std::chrono::duration_cast<std::chrono::nanoseconds>(MeshOptions{}.spin);
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return {spin.count(), ranks + 1 > cores};  // the host waits as well
}

Contest::Contest(const DispatchOptions& options, const Progress& progress) : progress_(progress) {
  result_.options = options;
  open(options);
}

void Contest::open(const DispatchOptions& options) {
  Mesh mesh = Mesh::open(mesh_options(options));
  const int ranks = mesh.world_size();
  job_ = options.safetensors.empty() ? make_sum_job(ranks, options.tensor_args)
                                     : make_checksum_job(ranks, options.safetensors);
  const std::uint64_t own = job_->tensors().size() * static_cast<std::uint64_t>(ranks);
  if (options.live_buffers.value_or(own) < own) {
    refuse(fmt::format("--live-buffers {} is less than the {} buffers of the job itself",
                       *options.live_buffers, own));
  }
  ProductOptions product{options.live_buffers.value_or(own), options.limit, options.kernel,
                         find_between(options.between).value()};
  product_ = std::make_unique<Product>(*job_, std::move(mesh), product);
  if (options.live_buffers) {
    product.live_buffers = own;
    minimum_ = std::make_unique<Product>(*job_, Mesh::open(mesh_options(options)), product);
  }

  const rankcast_kernel* kernel = nullptr;
  if (!product_->checked_ranks().empty()) {
    kernels_ = KernelLibrary::open_builtin();
    kernel = &kernels_->find(job_->kernel());
  }
  reference_ = std::make_unique<Reference>(*job_, kernel, reference_spin(ranks));
  reference_rounds_ = job_->rounds();
  repacked_ = std::make_unique<ReferenceSide>(*job_, *reference_, *reference_rounds_,
                                              Packing::repacked, options.limit);
  reused_ = std::make_unique<ReferenceSide>(*job_, *reference_, *reference_rounds_, Packing::reused,
                                            options.limit);

  result_.job = job_->name();
  result_.ranks = ranks;
  result_.tensor_args = static_cast<int>(job_->tensors().size());
  result_.reference_runs_kernel = kernel != nullptr;
  if (kernel != nullptr) result_.verified = true;
  result_.live_buffers = product_->live_buffers();

  contestants_.push_back({"reference, repacked", repacked_.get(), &result_.repacked, nullptr});
  contestants_.push_back({"mesh", product_.get(), &result_.product, product_.get()});
  if (minimum_) {
    contestants_.push_back(
        {"mesh without spare buffers", minimum_.get(), &minimum_result_.product, minimum_.get()});
    minimum_result_.live_buffers = minimum_->live_buffers();
  }
  contestants_.push_back({"reference, reused", reused_.get(), &result_.reused, nullptr});
  for (const Contestant& contestant : contestants_) {
    contestant.result->entry_us.resize(static_cast<std::size_t>(ranks));
  }
  rounds_planned_ = static_cast<std::uint64_t>(options.rounds) * contestants_.size();
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
  if (contestant.mesh != nullptr) ++result_.dispatches;
  if (!result_.verified) return times;
  if (std::optional<Mismatch> mismatch = contestant.side->verify()) {
    ++result_.wrong_rounds;
    if (result_.verified.value()) {
      result_.wrong = WrongResult{contestant.name, contestant.rounds, std::move(*mismatch)};
    }
    result_.verified = false;
  }
  return times;
}

void Contest::warm_up() {
  result_.calibration =
      calibrate(*reference_, [this] { idle(); }, [this] { report_progress(); }, kCalibrationBudget);
  result_.choice = reference_->choice();
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

Ratios ratios(const SideResult& product, const SideResult& reference) {
  return {block_ratio(product.submit_us, reference.submit_us),
          block_ratio(product.total_us, reference.total_us),
          block_ratio(product.entry_spread_us, reference.entry_spread_us)};
}

DispatchResult Contest::run() {
  warm_up();
  measure();
  result_.counters = product_->counters();
  result_.ratio = ratios(result_.product, result_.repacked);
  if (minimum_) {
    minimum_result_.counters = minimum_->counters();
    minimum_result_.submit_ratio =
        block_ratio(result_.product.submit_us, minimum_result_.product.submit_us);
    result_.minimum = std::move(minimum_result_);
  }
  contestants_.clear();
  return std::move(result_);
}

}  // namespace

void check_options(const DispatchOptions& options) {
  if (options.mode != "orchestrated") {
    refuse(fmt::format("--mode \"{}\" is not known; accepted: orchestrated", options.mode));
  }
  if (options.rounds < 1 || options.rounds > kMaxRounds) {
    refuse(
        fmt::format("--rounds {} is out of range; accepted: 1 to {}", options.rounds, kMaxRounds));
  }
  if (options.tensor_args < 2 || options.tensor_args > kMaxTensorArgs) {
    refuse(
        fmt::format("--tensor-args {} is out of range; accepted: 2 (an input and the output) to {}",
                    options.tensor_args, kMaxTensorArgs));
  }
  if (options.gap_us < 0 || options.gap_us > kMaxGapUs) {
    refuse(
        fmt::format("--gap-us {} is out of range; accepted: 0 to {}", options.gap_us, kMaxGapUs));
  }
  if (options.live_buffers.value_or(0) > kMaxLiveBuffers) {
    refuse(fmt::format("--live-buffers {} is out of range; accepted: up to {}",
                       *options.live_buffers, kMaxLiveBuffers));
  }
  if (options.live_buffers && !options.safetensors.empty()) {
    refuse("--live-buffers measures the sum job; leave out --safetensors");
  }
  if (!find_between(options.between)) {
    refuse(fmt::format("--between \"{}\" is not known; accepted: nothing, free, rotate",
                       options.between));
  }
  if (options.between == "rotate" && !options.safetensors.empty()) {
    refuse("--between rotate is for the sum job, whose inputs are alike; leave out --safetensors");
  }
  if (options.limit.count() <= 0) refuse("--timeout-s must be more than 0");
}

DispatchResult run_dispatch(const DispatchOptions& options, const Progress& progress) {
  check_options(options);
  return Contest(options, progress).run();
}

}  // namespace rankcast::bench
