#include "rank/hello.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <exception>
#include <utility>

namespace rankcast::rank {

namespace {

// Fills a RankEnvironment in which only this rank's plan is.
base::Status read_hello(std::string_view text, int rank, RankEnvironment* environment) {
  const nlohmann::json hello = nlohmann::json::from_cbor(text);
  auto plans = plan_ranks(hello.at("device").get<std::string>());
  if (!plans) return std::move(plans).error();
  environment->plans.resize(static_cast<std::size_t>(rank) + 1);
  RankPlan& plan = environment->plans.back();
  plan = std::move(plans->front());
  plan.options.run_records = hello.at("run_records").get<std::uint32_t>();
  plan.options.host_addresses = false;
  plan.options.tells_tasks = hello.at("tells_tasks").get<bool>();
  for (const nlohmann::json& library : hello.at("libraries")) {
    auto digest = parse_digest(library.at("digest").get<std::string>());
    if (!digest) return std::move(digest).error();
    const LibraryPlace place{library.at("path").get<std::string>(), *digest,
                             library.at("first_kernel").get<std::uint32_t>(),
                             library.at("kernel_count").get<std::uint32_t>()};
    if (base::Status status = load_library(place, environment->kernels); !status.ok())
      return status;
  }
  return {};
}

}  // namespace

std::string hello_of(const RankEnvironment& environment, int rank) {
  const RankPlan& plan = environment.plans[static_cast<std::size_t>(rank)];
  nlohmann::json hello;
  hello["device"] = plan.options.device.to_string();
  hello["run_records"] = plan.options.run_records;
  hello["tells_tasks"] = plan.options.tells_tasks;
  hello["libraries"] = nlohmann::json::array();
  for (const LibraryPlace& place : environment.kernels.libraries()) {
    hello["libraries"].push_back({{"path", place.path},
                                  {"digest", digest_text(place.digest)},
                                  {"first_kernel", place.first_kernel},
                                  {"kernel_count", place.kernel_count}});
  }
  // Not as text: a path is bytes, of which not all are UTF-8.
  std::string bytes;
  nlohmann::json::to_cbor(hello, bytes);
  return bytes;
}

void rank_main_of(std::string_view hello, link::RankPort& port) noexcept {
  try {
    RankEnvironment environment;
    if (base::Status status = read_hello(hello, port.rank(), &environment); !status.ok()) {
      port.report(status);
      return;
    }
    rank_main(environment, port);
  } catch (const std::exception& error) {
    port.report(base::failure(ErrorCode::internal, "a damaged hello: {}", error.what()));
  }
}

}  // namespace rankcast::rank
