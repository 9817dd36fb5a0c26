#include "bench/lib/link_sides.h"

#include <fmt/core.h>

#include <thread>
#include <utility>

#include "rankcast/error.h"

namespace rankcast::bench {

namespace {

base::SpinPolicy reference_spin(int ranks) {
  const auto spin = std::chrono::duration_cast<std::chrono::nanoseconds>(MeshOptions{}.spin);
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return {spin.count(), ranks + 1 > cores};  // the host waits as well
}

Ratios ratios(const SideResult& product, const SideResult& reference) {
  return {block_ratio(product.submit_us, reference.submit_us),
          block_ratio(product.total_us, reference.total_us),
          block_ratio(product.entry_spread_us, reference.entry_spread_us)};
}

}  // namespace

MeshOptions mesh_options(const DispatchOptions& options, const std::string& link) {
  MeshOptions mesh;
  mesh.devices = options.devices;
  mesh.link = link;
  return mesh;
}

LinkSides::LinkSides(const Job& job, Mesh mesh, std::string link, const DispatchOptions& options) {
  result_.link = std::move(link);
  if (options.link != result_.link) prefix_ = fmt::format("link {}: ", result_.link);
  const int ranks = job.ranks();
  const std::uint64_t own = job.tensors().size() * static_cast<std::uint64_t>(ranks);
  if (options.live_buffers.value_or(own) < own) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--live-buffers {} is less than the {} buffers of the job itself",
                            *options.live_buffers, own));
  }
  ProductOptions product{options.live_buffers.value_or(own), options.limit, options.kernel,
                         between_of(options)};
  product_ = std::make_unique<Product>(job, std::move(mesh), product);
  if (options.live_buffers) {
    product.live_buffers = own;
    minimum_ =
        std::make_unique<Product>(job, Mesh::open(mesh_options(options, result_.link)), product);
    minimum_result_.live_buffers = minimum_->live_buffers();
  }

  if (!product_->checked_ranks().empty()) {
    kernels_ = KernelLibrary::open_builtin();
    result_.verified = true;
  }
  reference_ = std::make_unique<Reference>(job, reference_ranks(job, options.reference_command),
                                           reference_spin(ranks));
  reference_rounds_ = job.rounds();
  repacked_ = std::make_unique<ReferenceSide>(job, *reference_, *reference_rounds_,
                                              Packing::repacked, options.limit);
  reused_ = std::make_unique<ReferenceSide>(job, *reference_, *reference_rounds_, Packing::reused,
                                            options.limit);
  result_.reference_ranks = reference_->ranks();
  result_.reference_runs_kernel = kernels_.has_value();
  result_.live_buffers = product_->live_buffers();
}

std::unique_ptr<ReferenceRanks> LinkSides::reference_ranks(const Job& job,
                                                           const std::string& command) const {
  if (result_.link == "process") {
    return process_ranks({command, kernels_ ? kernels_->path() : std::string(),
                          kernels_ ? job.kernel() : std::string()});
  }
  return thread_ranks(kernels_ ? &kernels_->find(job.kernel()) : nullptr);
}

LinkSides::Contestant LinkSides::contestant(const char* name, Side& side, SideResult& result,
                                            Product* mesh) {
  result.entry_us.resize(static_cast<std::size_t>(product_->mesh().world_size()));
  return {prefix_ + name, &side, &result, &result_, mesh};
}

LinkSides::Contestant LinkSides::repacked() {
  return contestant("reference, repacked", *repacked_, result_.repacked, nullptr);
}

LinkSides::Contestant LinkSides::mesh() {
  return contestant("mesh", *product_, result_.product, product_.get());
}

std::optional<LinkSides::Contestant> LinkSides::minimum() {
  if (!minimum_) return std::nullopt;
  return contestant("mesh without spare buffers", *minimum_, minimum_result_.product,
                    minimum_.get());
}

LinkSides::Contestant LinkSides::reused() {
  return contestant("reference, reused", *reused_, result_.reused, nullptr);
}

void LinkSides::calibrate(const std::function<void()>& idle,
                          const std::function<void()>& checkpoint,
                          std::chrono::nanoseconds budget) {
  result_.calibration = bench::calibrate(*reference_, idle, checkpoint, budget);
  result_.choice = reference_->choice();
}

LinkResult LinkSides::finish() {
  result_.counters = product_->counters();
  result_.ratio = ratios(result_.product, result_.repacked);
  if (minimum_) {
    minimum_result_.counters = minimum_->counters();
    minimum_result_.submit_ratio =
        block_ratio(result_.product.submit_us, minimum_result_.product.submit_us);
    result_.minimum = std::move(minimum_result_);
  }
  return std::move(result_);
}

}  // namespace rankcast::bench
