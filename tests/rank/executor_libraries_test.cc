// Records that load kernel libraries: in the order of the lane, at the host's ids, or an error of
// the run.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "rank/executor_rig.h"
#include "support/temp_folder.h"

namespace rankcast::rank {
namespace {

using ::testing::HasSubstr;

std::string library(const std::string& name) {
  return fmt::format("{}/{}.so", RANKCAST_TEST_LIBRARIES, name);
}

class ExecutorLibraries : public ::testing::Test {
 protected:
  ExecutorLibraries() { EXPECT_TRUE(rig_.start().ok()); }

  LaneResult load(int rank, const std::string& path, const Digest& digest, std::uint32_t first = 10,
                  std::uint32_t count = 2,
                  const std::function<void(frame::LibraryRecord&)>& damage = {}) {
    frame::LibraryRecord library;
    std::memcpy(library.digest, digest.data(), sizeof(library.digest));
    library.first_kernel = first;
    library.kernel_count = count;
    library.path = {0, static_cast<std::uint32_t>(path.size())};
    if (damage) damage(library);
    frame::SideDraft side;
    side.libraries = {&library, 1};
    side.text = path;
    frame::Record record = rig_.record_of(rank, {}, 0);
    record.kind = frame::RecordKind::load_kernels;
    record.side = rig_.write(side);
    return rig_.run(rank, record);
  }
  LaneResult load(int rank, const std::string& path) {
    return load(rank, path, sha256_of_file(path).value());
  }
  void expect_refused(const LaneResult& result, ErrorCode code, const std::string& words) {
    EXPECT_EQ(result.report.error_code, static_cast<std::uint8_t>(code)) << result.text;
    EXPECT_THAT(result.text, HasSubstr(words));
    EXPECT_EQ(rig_.kernels().entry(10), nullptr);
    EXPECT_EQ(rig_.kernels().size(), 0u);
  }

  ExecutorRig rig_;
};

TEST_F(ExecutorLibraries, AreThereAtTheHostsIdsOnceTheRecordHasRetired) {
  EXPECT_EQ(load(0, library("good")).text, "");
  EXPECT_EQ(load(1, library("good")).text, "") << "these two share a registry";
  ASSERT_NE(rig_.kernels().entry(11), nullptr);
  EXPECT_EQ(rig_.kernels().entry(10)->name, "test.first");
  EXPECT_EQ(rig_.kernels().entry(11)->name, "test.second");
  for (const std::uint32_t id : {0u, 9u, 12u}) EXPECT_EQ(rig_.kernels().entry(id), nullptr);
  const auto places = rig_.kernels().libraries();
  ASSERT_EQ(places.size(), 1u);
  EXPECT_EQ(places[0].first_kernel, 10u);
  EXPECT_EQ(places[0].digest, sha256_of_file(library("good")).value());
}

TEST_F(ExecutorLibraries, EachFaultIsToldAsTheHostTellsIt) {
  const Digest digest = sha256_of_file(library("good")).value();
  const test::TempFolder folder;
  const auto refused = [&](const std::string& path, const std::string& words) {
    const auto on_host = KernelLibrary::open(path);
    ASSERT_FALSE(on_host);
    const Digest there = sha256_of_file(path).value_or(digest);
    const LaneResult result = load(1, path, there);
    expect_refused(result, ErrorCode::invalid_argument, words);
    EXPECT_EQ(result.text, "rank 1: " + on_host.error().text);
  };
  refused(folder.path("none.so"), "no such file");
  refused(folder.write("text.so", "no library"), "cannot be loaded");
  refused(library("no_symbol"), "rankcast_kernels");
  refused(library("other_abi"), "kernel ABI version 7");
}

TEST_F(ExecutorLibraries, AnotherFileUnderTheNameIsRefused) {
  const Digest other = sha256_of_file(library("good_later")).value();
  const LaneResult result = load(0, library("good"), other);
  expect_refused(result, ErrorCode::invalid_argument, "SHA-256");
  EXPECT_THAT(result.text, HasSubstr(digest_text(other)));
}

TEST_F(ExecutorLibraries, WhatTheHostCannotHaveSaidIsRefused) {
  const std::string path = library("good");
  const Digest digest = sha256_of_file(path).value();
  expect_refused(load(0, path, digest, 10, 3), ErrorCode::internal, "has 2 kernels, not 3");
  for (const std::uint32_t first : {KernelRegistry::kCapacity - 1, frame::kNone}) {
    expect_refused(load(0, path, digest, first), ErrorCode::internal, "not free");
  }
  const auto damaged = [&](const std::function<void(frame::LibraryRecord&)>& damage) {
    expect_refused(load(0, path, digest, 10, 2, damage), ErrorCode::internal, "damaged");
  };
  damaged([](frame::LibraryRecord& library) { library.path.count += 1; });
  damaged([](frame::LibraryRecord& library) { library.path.first = frame::kNone; });
  damaged([](frame::LibraryRecord& library) { library.path.count = 0; });
  EXPECT_EQ(load(0, path).text, "") << "the lane goes on";
  EXPECT_THAT(
      load(0, library("good_later"), sha256_of_file(library("good_later")).value(), 11).text,
      HasSubstr("not free"));
}

TEST(KernelRegistryPlaces, AClaimTakesIdsThatAreNeverGivenAgain) {
  KernelRegistry registry;
  auto first = KernelLibrary::open(library("good")).value();
  const LibraryPlace given_up = registry.claim(first).value();
  EXPECT_EQ(given_up.first_kernel, 0u);
  EXPECT_EQ(given_up.kernel_count, 2u);
  EXPECT_TRUE(registry.names().empty()) << "as it was";
  EXPECT_TRUE(registry.libraries().empty());
  EXPECT_EQ(registry.entry(0), nullptr);
  const LibraryPlace place = registry.claim(first).value();
  EXPECT_EQ(place.first_kernel, 2u);
  EXPECT_TRUE(registry.add_library_at(std::move(first), place.first_kernel).ok());
  EXPECT_EQ(registry.find("test.second"), 3u);
  EXPECT_EQ(registry.entry(1), nullptr);
  EXPECT_EQ(registry.claim(KernelLibrary::open(library("good_later")).value()).error().code,
            ErrorCode::invalid_argument)
      << "names are taken";
  // A rank that starts later.
  KernelRegistry successor;
  for (const LibraryPlace& one : registry.libraries()) {
    EXPECT_TRUE(load_library(one, successor).ok());
  }
  EXPECT_EQ(successor.find("test.first"), 2u);
  EXPECT_EQ(successor.entry(0), nullptr);
}

}  // namespace
}  // namespace rankcast::rank
