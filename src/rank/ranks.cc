#include "rank/ranks.h"

#include <exception>
#include <utility>

#include "base/fault_point.h"
#include "device/device.h"
#include "device/device_list.h"

namespace rankcast::rank {
namespace {

// For asking a device what it is, without a rank to signal.
struct NoSink final : device::SignalSink {
  void on_signal() noexcept override {}
};

}  // namespace

base::Result<std::vector<RankPlan>> plan_ranks(std::string_view devices) {
  auto specs = device::parse_device_list(devices);
  if (!specs) return tl::unexpected(std::move(specs).error());
  std::vector<RankPlan> plans;
  plans.reserve(specs->size());
  for (const device::DeviceSpec& spec : *specs) {
    if (base::Status status = device::check_device(spec); !status.ok())
      return tl::unexpected(std::move(status));
    NoSink sink;
    auto device = device::create_device(spec, sink);
    if (!device) return tl::unexpected(std::move(device).error());
    plans.push_back({spec.name(), (*device)->description(), (*device)->computes(), {spec, 0}});
  }
  return plans;
}

void rank_main(RankEnvironment& environment, link::RankPort& port) noexcept {
  try {
    const RankPlan& plan = environment.plans[static_cast<std::size_t>(port.rank())];
    auto executor =
        RANKCAST_FAULT_POINT("rank.start")
            ? tl::unexpected(base::failure(ErrorCode::internal, "made to fail at start"))
            : Executor::create(plan.options, port, environment.kernels);
    if (!executor) {
      port.report(executor.error());
      return;
    }
    port.report({});
    (*executor)->run();
  } catch (const std::exception& error) {
    // Only an allocation can end here. Before the report it is one; afterwards nothing can be said
    // for this lane.
    port.report(base::failure(ErrorCode::out_of_memory, "rank {}: {}", port.rank(), error.what()));
  }
}

}  // namespace rankcast::rank
