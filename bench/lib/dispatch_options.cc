#include "bench/lib/dispatch_options.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "link/link.h"
#include "rankcast/error.h"

namespace rankcast::bench {

namespace {

constexpr int kMaxRounds = 10'000'000;
constexpr int kMaxTensorArgs = 65'536;
constexpr std::int64_t kMaxGapUs = 60'000'000;
constexpr std::uint64_t kMaxLiveBuffers = 1'000'000'000;

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

std::string accepted_links() {
  std::vector<std::string_view> names;
  for (const link::LinkKind& kind : link::link_kinds()) names.push_back(kind.name);
  return fmt::format("{}, or several of them with commas between, each once",
                     fmt::join(names, ", "));
}

}  // namespace

std::vector<std::string> links_of(const DispatchOptions& options) {
  std::vector<std::string> links;
  std::string_view left = options.link;
  for (bool more = true; more;) {
    const std::size_t comma = left.find(',');
    const std::string name(left.substr(0, comma));
    more = comma != std::string_view::npos;
    if (more) left.remove_prefix(comma + 1);
    if (!link::find_link(name)) {
      refuse(fmt::format("--link \"{}\": no link is called \"{}\"; accepted: {}", options.link,
                         name, accepted_links()));
    }
    if (std::ranges::find(links, name) != links.end()) {
      refuse(fmt::format("--link \"{}\" has {} twice; accepted: {}", options.link, name,
                         accepted_links()));
    }
    links.push_back(name);
  }
  return links;
}

Between between_of(const DispatchOptions& options) { return find_between(options.between).value(); }

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
  links_of(options);
  if (options.limit.count() <= 0) refuse("--timeout-s must be more than 0");
}

}  // namespace rankcast::bench
