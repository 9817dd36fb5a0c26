#include "bench/lib/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <set>
#include <string>

namespace rankcast::bench {
namespace {

using nlohmann::json;

BlockSeries constant(double value) {
  BlockSeries series;
  for (int i = 0; i < 40; ++i) {
    series.add(value + i % 20);
    if (i % 20 == 19) series.end_block();
  }
  return series;
}

SideResult side(double scale) {
  return {constant(scale),
          constant(2 * scale),
          constant(3 * scale),
          constant(scale / 2),
          {{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}};
}

LinkResult link(const char* name) {
  LinkResult link;
  link.link = name;
  link.verified = true;
  link.dispatches = 84;
  link.product = side(100);
  link.repacked = side(50);
  link.reused = side(25);
  link.counters = {40, 11'360, 0, 11'360, 800'000, 10};
  link.ratio = {2.125, 1.5, 1.25};
  return link;
}

DispatchResult result() {
  DispatchResult result;
  result.options.rounds = 40;
  result.job = "sum";
  result.ranks = 2;
  result.tensor_args = 142;
  result.verified = true;
  result.dispatches = 84;
  result.links.push_back(link("thread"));
  return result;
}

json json_of(const DispatchResult& result) {
  return json::parse(dispatch_json(result, this_machine(), this_build()));
}

std::set<std::string> keys(const json& object) {
  std::set<std::string> names;
  for (const auto& [name, value] : object.items()) names.insert(name);
  return names;
}

void expect_summary(const json& summary) {
  EXPECT_EQ(keys(summary), (std::set<std::string>{"median", "p99", "min", "max"}));
  for (const auto& [name, value] : summary.items()) EXPECT_TRUE(value.is_number()) << name;
}

constexpr const char* kSeries[] = {"submit_us", "wait_us", "total_us", "entry_spread_us"};

TEST(DispatchJson, HasExactlyTheKeysOfItsSchema) {
  const json report = json_of(result());
  EXPECT_EQ(keys(report),
            (std::set<std::string>{"schema", "machine", "ranks", "tensor_args", "rounds", "link",
                                   "mode", "between", "verified", "dispatches", "submit_us",
                                   "wait_us", "total_us", "entry_spread_us", "per_rank_entry_us",
                                   "reference", "ratio", "counters"}));
  EXPECT_EQ(report["schema"], "rankcast.bench.dispatch/1");
  EXPECT_EQ(keys(report["reference"]), (std::set<std::string>{"ranks", "repacked", "reused"}));
  EXPECT_EQ(keys(report["ratio"]), (std::set<std::string>{"submit", "total", "entry_spread"}));
  EXPECT_EQ(keys(report["counters"]),
            (std::set<std::string>{"descriptors_built", "allocations", "table_visits",
                                   "bytes_written", "wakes"}));
  for (const char* series : kSeries) {
    expect_summary(report[series]);
    expect_summary(report["reference"]["repacked"][series]);
    expect_summary(report["reference"]["reused"][series]);
  }
}

TEST(DispatchJson, ValuesAreTheResults) {
  const json report = json_of(result());
  EXPECT_EQ(report["ranks"], 2);
  EXPECT_EQ(report["tensor_args"], 142);
  EXPECT_EQ(report["rounds"], 40);
  EXPECT_EQ(report["link"], "thread");
  EXPECT_EQ(report["mode"], "orchestrated");
  EXPECT_EQ(report["verified"], true);
  EXPECT_EQ(report["dispatches"], 84);
  EXPECT_EQ(report["submit_us"]["min"], 100);
  EXPECT_EQ(report["total_us"]["max"], 319);
  EXPECT_EQ(report["reference"]["reused"]["wait_us"]["min"], 50);
  EXPECT_EQ(report["per_rank_entry_us"], json::parse("[2.0, 5.0]"));
  EXPECT_EQ(report["ratio"]["submit"], 2.125);
  EXPECT_EQ(report["counters"]["descriptors_built"], 284);
  EXPECT_TRUE(report["counters"]["allocations"].is_number_integer());
  EXPECT_EQ(report["counters"]["wakes"], 0.25);
  EXPECT_TRUE(report["machine"]["cores"].is_number_integer());
}

TEST(DispatchJson, VerifiedIsNullWhereNothingCouldBeChecked) {
  DispatchResult unchecked = result();
  unchecked.verified.reset();
  EXPECT_TRUE(json_of(unchecked)["verified"].is_null());
  unchecked.verified = false;
  EXPECT_EQ(json_of(unchecked)["verified"], false);
}

TEST(DispatchJson, LiveBuffersComeWithTheMeshTheyAreComparedWith) {
  DispatchResult with = result();
  LinkResult& one = with.links[0];
  one.live_buffers = 1'000'000;
  one.minimum = LinkResult::Minimum{side(90), one.counters, 284, 1.125};
  const json report = json_of(with);
  EXPECT_EQ(report["ratio"]["live_buffers_submit"], 1.125);
  EXPECT_EQ(report["live_buffers"]["count"], 1'000'000);
  EXPECT_EQ(report["live_buffers"]["minimum"]["count"], 284);
  EXPECT_EQ(report["live_buffers"]["minimum"]["counters"]["table_visits"], 284);
  expect_summary(report["live_buffers"]["minimum"]["submit_us"]);
}

DispatchResult both_links() {
  DispatchResult both = result();
  both.options.link = "process,thread";
  both.dispatches = 168;
  LinkResult process = link("process");
  process.product = side(150);
  process.reference_ranks = std::string("process");
  process.counters.wakes = 80;
  both.links.insert(both.links.begin(), std::move(process));
  both.process_over_thread = LinkRatios{1.25, 1.125};
  return both;
}

TEST(DispatchJson, SeveralLinksHaveTheKeysOfAMeshEach) {
  const json report = json_of(both_links());
  EXPECT_EQ(report["link"], "process,thread");
  EXPECT_EQ(report["dispatches"], 168);
  EXPECT_EQ(report["ratio"]["process_over_thread"],
            json::parse(R"({"submit":1.25,"total":1.125})"));
  EXPECT_EQ(report["submit_us"], report["links"]["process"]["submit_us"]) << "the first link's";
  EXPECT_EQ(keys(report["links"]), (std::set<std::string>{"process", "thread"}));
  for (const json& one : report["links"]) {
    EXPECT_EQ(keys(one), (std::set<std::string>{"verified", "dispatches", "submit_us", "wait_us",
                                                "total_us", "entry_spread_us", "per_rank_entry_us",
                                                "reference", "ratio", "counters"}));
    for (const char* series : kSeries) expect_summary(one[series]);
    EXPECT_EQ(keys(one["ratio"]), (std::set<std::string>{"submit", "total", "entry_spread"}));
    EXPECT_EQ(one["dispatches"], 84);
  }
  EXPECT_EQ(report["links"]["thread"]["submit_us"]["min"], 100);
  EXPECT_EQ(report["links"]["process"]["submit_us"]["min"], 150);
  EXPECT_EQ(report["links"]["process"]["counters"]["wakes"], 2);
  EXPECT_EQ(report["links"]["process"]["reference"]["ranks"], "process");
  EXPECT_EQ(report["links"]["thread"]["reference"]["ranks"], "thread");
}

TEST(DispatchJson, AWrongLinkIsTold) {
  DispatchResult wrong = both_links();
  wrong.verified = false;
  wrong.links[0].verified = false;
  const json report = json_of(wrong);
  EXPECT_EQ(report["verified"], false);
  EXPECT_EQ(report["links"]["process"]["verified"], false);
  EXPECT_EQ(report["links"]["thread"]["verified"], true);
}

std::string table_of(const DispatchResult& result) {
  return dispatch_table(result, this_machine(), this_build(), "rankcast bench dispatch");
}

TEST(DispatchTable, SaysWhatWasRunAndHowToRunItAgain) {
  const std::string table = table_of(result());
  EXPECT_THAT(table, testing::HasSubstr("2 ranks x 142 tensors"));
  EXPECT_THAT(table, testing::HasSubstr("every result verified"));
  EXPECT_THAT(table, testing::HasSubstr("\nrankcast bench dispatch\n"));
  EXPECT_THAT(table, testing::HasSubstr("2.12x"));
}

TEST(DispatchTable, BudgetsAreThoseOfEightRanks) {
  DispatchResult eight = result();
  EXPECT_THAT(table_of(eight), testing::Not(testing::HasSubstr("<=")));
  eight.ranks = 8;
  EXPECT_THAT(table_of(eight), testing::HasSubstr("<= 4.0 met"));
  eight.links[0].ratio.total = 1.61;
  EXPECT_THAT(table_of(eight), testing::HasSubstr("<= 1.6 OVER"));
  eight.options.gap_us = 5000;
  EXPECT_THAT(table_of(eight), testing::HasSubstr("<= 1.3 OVER"));
}

TEST(DispatchTable, SeveralLinksStandBelowEachOtherWithTheirRatio) {
  DispatchResult both = both_links();
  const std::string table = table_of(both);
  const std::size_t process = table.find("\nlink process\nsubmit");
  const std::size_t thread = table.find("\nlink thread\nsubmit");
  EXPECT_LT(process, thread);
  EXPECT_NE(thread, std::string::npos);
  EXPECT_THAT(table, testing::HasSubstr("mesh of link process / mesh of link thread"));
  EXPECT_THAT(table, testing::HasSubstr("1.25x\n"));
  both.ranks = 8;
  both.process_over_thread->total = 1.75;
  EXPECT_THAT(table_of(both), testing::HasSubstr("1.25x  <= 1.5 met\n"));
  EXPECT_THAT(table_of(both), testing::HasSubstr("1.75x  <= 1.5 OVER\n"));
  EXPECT_THAT(table_of(result()), testing::Not(testing::HasSubstr("link process /")));
}

TEST(WrongResult, NamesSideRoundRankElementFoundAndExpected) {
  DispatchResult wrong = result();
  EXPECT_EQ(wrong_result_text(wrong), "");
  wrong.verified = false;
  wrong.wrong = WrongResult{"mesh", 7, {3, "output", 5, "12", "13"}};
  wrong.wrong_rounds = 2;
  EXPECT_EQ(wrong_result_text(wrong),
            "mesh, round 7: rank 3, output, element 5: found 12, expected 13 (2 wrong in all)");
  EXPECT_THAT(table_of(wrong), testing::HasSubstr("WRONG RESULTS"));
}

TEST(BytesText, PicksTheUnit) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(std::uint64_t{3} << 30), "3.0 GiB");
}

}  // namespace
}  // namespace rankcast::bench
