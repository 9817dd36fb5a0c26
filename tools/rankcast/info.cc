#include "tools/rankcast/info.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "bench/lib/machine.h"
#include "bench/lib/output_file.h"
#include "rankcast/rankcast.h"
#include "tools/rankcast/exit_code.h"
#include "tools/rankcast/kinds.h"

namespace rankcast::tools {

namespace {

using Json = nlohmann::ordered_json;

struct Limit {
  const char* name;
  std::uint64_t value;
};

constexpr std::array<Limit, 9> kLimits = {{
    {"dimensions of a tensor", kMaxDims},
    {"ranks of a mesh", 1024},
    {"live buffers of a rank", 16'777'216},
    {"runs in flight", 1024},
    {"alignment of a buffer, bytes", 256},
    {"kernel ABI version", RANKCAST_KERNEL_ABI_VERSION},
    {"kernel entry, bytes", sizeof(rankcast_kernel)},
    {"kernel context, bytes", sizeof(rankcast_kernel_context)},
    {"text of a kernel's failure, bytes", RANKCAST_FAILURE_TEXT_BYTES},
}};

struct Facts {
  bench::Machine machine = bench::this_machine();
  bench::Build build = bench::this_build();
  std::vector<Kind> devices;
  std::vector<Kind> links;
  MeshOptions defaults;
  std::vector<std::string> kernels;
  std::vector<RankInfo> ranks;
};

Facts gather(const Info& command) {
  Facts facts;
  facts.devices = probe_devices();
  facts.links = probe_links();
  if (!command.devices) return facts;
  MeshOptions options;
  options.devices = *command.devices;
  options.link = command.link;
  Mesh mesh = Mesh::open(options);
  facts.ranks = mesh.ranks();
  facts.kernels = mesh.kernels();
  mesh.close();
  return facts;
}

std::string seconds(std::chrono::duration<double> time) {
  return fmt::format("{:g} s", time.count());
}

std::vector<std::pair<std::string, std::string>> default_texts(const MeshOptions& defaults) {
  return {{"devices", defaults.devices},
          {"link", defaults.link},
          {"max_in_flight", fmt::format("{}", defaults.max_in_flight)},
          {"startup_timeout", seconds(defaults.startup_timeout)},
          {"close_timeout", seconds(defaults.close_timeout)},
          {"spin", fmt::format("{:g} us", defaults.spin.count())}};
}

void print_kinds(const char* what, const std::vector<Kind>& kinds) {
  fmt::print("{}\n", what);
  for (const Kind& kind : kinds) {
    fmt::print("  {:<34}{}\n", kind.name,
               kind.reason.empty() ? "available" : "not available: " + kind.reason);
  }
}

void print_text(const Facts& facts) {
  fmt::print("{}\n{}\n", bench::describe(facts.build), bench::describe(facts.machine));
  fmt::print("processor features: {}\n", fmt::join(facts.machine.features, " "));
  print_kinds("devices", facts.devices);
  print_kinds("links", facts.links);
  fmt::print("defaults\n");
  for (const auto& [name, value] : default_texts(facts.defaults)) {
    fmt::print("  {:<34}{}\n", name, value);
  }
  fmt::print("limits and sizes\n");
  for (const Limit& limit : kLimits) fmt::print("  {:<34}{}\n", limit.name, limit.value);
  if (facts.ranks.empty()) return;
  fmt::print("kernels: {}\n", fmt::join(facts.kernels, " "));
  fmt::print("ranks\n");
  for (const RankInfo& rank : facts.ranks) {
    fmt::print("  {:<5}{:<12}{:>10} in use{:>10} reserved  {}\n", rank.rank, rank.device,
               bench::bytes_text(rank.memory_bytes), bench::bytes_text(rank.reserved_bytes),
               rank.description);
  }
}

Json kinds_json(const std::vector<Kind>& kinds) {
  Json json = Json::array();
  for (const Kind& kind : kinds) {
    json.push_back({{"name", kind.name},
                    {"available", kind.reason.empty()},
                    {"reason", kind.reason.empty() ? Json(nullptr) : Json(kind.reason)}});
  }
  return json;
}

std::string json_text(const Facts& facts) {
  Json json;
  json["schema"] = "rankcast.info/1";
  json["version"] = facts.build.version;
  json["build"] = facts.build.type;
  json["compiler"] = facts.build.compiler;
  json["machine"] = {{"processor", facts.machine.processor},
                     {"cores", facts.machine.cores},
                     {"memory_bytes", facts.machine.memory_bytes},
                     {"system", facts.machine.system},
                     {"features", facts.machine.features}};
  json["devices"] = kinds_json(facts.devices);
  json["links"] = kinds_json(facts.links);
  json["defaults"] = {{"devices", facts.defaults.devices},
                      {"link", facts.defaults.link},
                      {"max_in_flight", facts.defaults.max_in_flight},
                      {"startup_timeout_s", facts.defaults.startup_timeout.count()},
                      {"close_timeout_s", facts.defaults.close_timeout.count()},
                      {"spin_us", facts.defaults.spin.count()}};
  json["limits"] = Json::object();
  for (const Limit& limit : kLimits) json["limits"][limit.name] = limit.value;
  json["kernels"] = facts.kernels;
  json["ranks"] = Json::array();
  for (const RankInfo& rank : facts.ranks) {
    json["ranks"].push_back({{"rank", rank.rank},
                             {"device", rank.device},
                             {"description", rank.description},
                             {"memory_bytes", rank.memory_bytes},
                             {"reserved_bytes", rank.reserved_bytes}});
  }
  return json.dump(2) + "\n";
}

}  // namespace

int run_info(const Info& command) {
  std::optional<bench::OutputFile> json;
  if (!command.json.empty()) json.emplace(command.json);
  const Facts facts = gather(command);
  if (!json || !json->is_standard_output()) print_text(facts);
  if (json) json->write(json_text(facts));
  return kExitGood;
}

}  // namespace rankcast::tools
