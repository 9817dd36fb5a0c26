#include <nlohmann/json.hpp>

#include <cmath>

#include "bench/lib/report.h"

namespace rankcast::bench {

namespace {

// In the order in which they are put in: the file is also read by people.
using Json = nlohmann::ordered_json;

double rounded(double value) { return std::round(value * 1000) / 1000; }

Json summary_json(const BlockSeries& series) {
  const Summary summary = summarize(series.values);
  return {{"median", rounded(summary.median)},
          {"p99", rounded(summary.p99)},
          {"min", rounded(summary.min)},
          {"max", rounded(summary.max)}};
}

void add_side(Json& json, const SideResult& side) {
  json["submit_us"] = summary_json(side.submit_us);
  json["wait_us"] = summary_json(side.wait_us);
  json["total_us"] = summary_json(side.total_us);
  json["entry_spread_us"] = summary_json(side.entry_spread_us);
}

Json side_json(const SideResult& side) {
  Json json;
  add_side(json, side);
  return json;
}

Json each(std::uint64_t count, std::uint64_t submits) {
  if (submits == 0) return 0;
  if (count % submits == 0) return count / submits;
  return rounded(static_cast<double>(count) / static_cast<double>(submits));
}

Json counters_json(const SubmitCounters& counters) {
  return {{"descriptors_built", each(counters.descriptors_built, counters.submits)},
          {"allocations", each(counters.allocations, counters.submits)},
          {"table_visits", each(counters.table_visits, counters.submits)},
          {"bytes_written", each(counters.bytes_written, counters.submits)},
          {"wakes", each(counters.wakes, counters.submits)}};
}

Json machine_json(const Machine& machine, const Build& build) {
  return {{"processor", machine.processor},
          {"cores", machine.cores},
          {"memory_bytes", machine.memory_bytes},
          {"system", machine.system},
          {"features", machine.features},
          {"rankcast", build.version},
          {"build", build.type},
          {"compiler", build.compiler},
          {"sanitizer", build.sanitizer}};
}

Json reference_json(const LinkResult& link) {
  return {{"ranks", link.reference_ranks},
          {"repacked", side_json(link.repacked)},
          {"reused", side_json(link.reused)}};
}

// The keys of a mesh, without those that count for all links together.
void add_link(Json& json, const LinkResult& link) {
  add_side(json, link.product);
  json["per_rank_entry_us"] = Json::array();
  for (const std::vector<double>& entries : link.product.entry_us) {
    json["per_rank_entry_us"].push_back(rounded(quantile(entries, 0.5)));
  }
  json["reference"] = reference_json(link);
  json["ratio"] = {{"submit", rounded(link.ratio.submit)},
                   {"total", rounded(link.ratio.total)},
                   {"entry_spread", rounded(link.ratio.entry_spread)}};
  json["counters"] = counters_json(link.counters);
  if (link.minimum) {
    json["ratio"]["live_buffers_submit"] = rounded(link.minimum->submit_ratio);
    Json minimum = side_json(link.minimum->product);
    minimum["count"] = link.minimum->live_buffers;
    minimum["counters"] = counters_json(link.minimum->counters);
    json["live_buffers"] = {{"count", link.live_buffers}, {"minimum", std::move(minimum)}};
  }
}

void add_verdict(Json& json, const std::optional<bool>& verified, std::uint64_t dispatches) {
  json["verified"] = verified ? Json(*verified) : Json(nullptr);
  json["dispatches"] = dispatches;
}

}  // namespace

std::string dispatch_json(const DispatchResult& result, const Machine& machine,
                          const Build& build) {
  Json json;
  json["schema"] = "rankcast.bench.dispatch/1";
  json["machine"] = machine_json(machine, build);
  json["ranks"] = result.ranks;
  json["tensor_args"] = result.tensor_args;
  json["rounds"] = result.options.rounds;
  json["link"] = result.options.link;
  json["mode"] = result.options.mode;
  json["between"] = result.options.between;
  add_verdict(json, result.verified, result.dispatches);
  add_link(json, result.links.front());
  if (result.links.size() > 1) {
    for (const LinkResult& link : result.links) {
      Json& one = json["links"][link.link];
      add_verdict(one, link.verified, link.dispatches);
      add_link(one, link);
    }
  }
  if (result.process_over_thread) {
    json["ratio"]["process_over_thread"] = {{"submit", rounded(result.process_over_thread->submit)},
                                            {"total", rounded(result.process_over_thread->total)}};
  }
  return json.dump(2) + "\n";
}

}  // namespace rankcast::bench
