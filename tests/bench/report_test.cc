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

DispatchResult result() {
  DispatchResult result;
  result.options.rounds = 40;
  result.job = "sum";
  result.ranks = 2;
  result.tensor_args = 142;
  result.verified = true;
  result.dispatches = 84;
  result.product = side(100);
  result.repacked = side(50);
  result.reused = side(25);
  result.counters = {40, 11'360, 0, 11'360, 800'000, 10};
  result.ratio = {2.125, 1.5, 1.25};
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
  EXPECT_EQ(keys(report["reference"]), (std::set<std::string>{"repacked", "reused"}));
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
  with.live_buffers = 1'000'000;
  with.minimum = DispatchResult::Minimum{side(90), with.counters, 284, 1.125};
  const json report = json_of(with);
  EXPECT_EQ(report["ratio"]["live_buffers_submit"], 1.125);
  EXPECT_EQ(report["live_buffers"]["count"], 1'000'000);
  EXPECT_EQ(report["live_buffers"]["minimum"]["count"], 284);
  EXPECT_EQ(report["live_buffers"]["minimum"]["counters"]["table_visits"], 284);
  expect_summary(report["live_buffers"]["minimum"]["submit_us"]);
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
  eight.ratio.total = 1.61;
  EXPECT_THAT(table_of(eight), testing::HasSubstr("<= 1.6 OVER"));
  eight.options.gap_us = 5000;
  EXPECT_THAT(table_of(eight), testing::HasSubstr("<= 1.3 OVER"));
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
