// Ids, names and what is refused.
#include "rank/kernel_registry.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "rank/kernel_library.h"
#include "rankcast/error.h"
#include "rankcast/mesh.h"

namespace rankcast::rank {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string path_of(const std::string& name) {
  return std::string(RANKCAST_TEST_LIBRARIES) + "/" + name + ".so";
}

KernelLibrary library(const std::string& name) {
  auto opened = KernelLibrary::open(path_of(name));
  if (!opened) throw std::runtime_error(opened.error().text);
  return std::move(*opened);
}

void nothing(const KernelCall& /*call*/) {}

/// Runs an entry as a rank does and returns what it left.
struct Outcome {
  int status;
  rankcast_failure failure;
};
Outcome run(const KernelEntry& entry, std::span<const DLTensor> tensors = {},
            std::span<const rankcast_scalar> scalars = {}) {
  rankcast_kernel_context context{};
  context.struct_size = sizeof(context);
  context.rank = 3;
  rankcast_call call{};
  call.struct_size = sizeof(call);
  call.tensor_count = static_cast<std::uint32_t>(tensors.size());
  call.tensors = tensors.data();
  call.scalar_count = static_cast<std::uint32_t>(scalars.size());
  call.scalars = scalars.data();
  Outcome outcome{};
  outcome.failure.argument = -1;
  outcome.status = entry.abi.run(&context, entry.initial_state, &call, &outcome.failure);
  return outcome;
}

TEST(KernelRegistry, GivesDenseIdsThatStay) {
  KernelRegistry registry;
  EXPECT_EQ(registry.size(), 0u);
  EXPECT_EQ(registry.entry(0), nullptr);
  ASSERT_TRUE(registry.add_library(library("good")).ok());
  const KernelEntry* first = registry.entry(0);
  ASSERT_NE(first, nullptr);
  ASSERT_TRUE(registry.add_function("my.kernel", nothing).ok());
  EXPECT_EQ(registry.find("test.first"), 0u);
  EXPECT_EQ(registry.find("test.second"), 1u);
  EXPECT_EQ(registry.find("my.kernel"), 2u);
  EXPECT_EQ(registry.find("my.kerne"), std::nullopt);
  EXPECT_EQ(registry.find(""), std::nullopt);
  EXPECT_EQ(registry.size(), 3u);
  EXPECT_EQ(registry.entry(0), first);
  EXPECT_EQ(registry.entry(3), nullptr);
  EXPECT_EQ(registry.entry(~0u), nullptr);
  EXPECT_EQ(first->name, "test.first");
  EXPECT_STREQ(first->abi.name, "test.first");
  EXPECT_EQ(first->library, path_of("good"));
  EXPECT_EQ(registry.entry(2)->name, "my.kernel");
  EXPECT_EQ(registry.entry(2)->library, "function");
}

TEST(KernelRegistry, NamesAreSorted) {
  KernelRegistry registry;
  EXPECT_TRUE(registry.names().empty());
  ASSERT_TRUE(registry.add_function("z.z", nothing).ok());
  ASSERT_TRUE(registry.add_library(library("good")).ok());
  ASSERT_TRUE(registry.add_function("a.a", nothing).ok());
  EXPECT_THAT(registry.names(), ElementsAre("a.a", "test.first", "test.second", "z.z"));
}

TEST(KernelRegistry, ALibraryStaysLoadedAndItsKernelsRun) {
  KernelRegistry registry;
  ASSERT_TRUE(registry.add_library(library("good")).ok());
  EXPECT_EQ(run(*registry.entry(1)).status, RANKCAST_OK) << "its initial state is null";
}

TEST(KernelRegistry, AddsAllOfALibraryOrNothing) {
  KernelRegistry registry;
  ASSERT_TRUE(registry.add_library(library("good")).ok());
  // other.first is new, test.second is not.
  const base::Status status = registry.add_library(library("good_clash"));
  EXPECT_EQ(status.code, ErrorCode::invalid_argument);
  EXPECT_THAT(status.text, AllOf(HasSubstr("\"test.second\""), HasSubstr(path_of("good_clash")),
                                 HasSubstr(path_of("good"))));
  EXPECT_EQ(registry.find("other.first"), std::nullopt);
  EXPECT_EQ(registry.size(), 2u);
  EXPECT_EQ(registry.add_library(library("good")).code, ErrorCode::invalid_argument);
  EXPECT_THAT(registry.names(), ElementsAre("test.first", "test.second"));
}

TEST(KernelRegistry, RefusesFunctionsThatCannotBeKernels) {
  KernelRegistry registry;
  ASSERT_TRUE(registry.add_library(library("good")).ok());
  const base::Status malformed = registry.add_function("Mine", nothing);
  EXPECT_EQ(malformed.code, ErrorCode::invalid_argument);
  EXPECT_THAT(malformed.text, AllOf(HasSubstr("\"Mine\""), HasSubstr("lower-case")));
  const base::Status taken = registry.add_function("test.first", nothing);
  EXPECT_EQ(taken.code, ErrorCode::invalid_argument);
  EXPECT_THAT(taken.text, AllOf(HasSubstr("\"test.first\""), HasSubstr(path_of("good"))));
  const base::Status empty = registry.add_function("my.kernel", KernelFunction());
  EXPECT_EQ(empty.code, ErrorCode::invalid_argument);
  EXPECT_THAT(empty.text, AllOf(HasSubstr("\"my.kernel\""), HasSubstr("empty")));
  EXPECT_EQ(registry.size(), 2u);
}

TEST(KernelRegistry, SaysWhenItIsFull) {
  KernelRegistry registry;
  for (std::uint32_t i = 0; i < KernelRegistry::kCapacity - 1; ++i) {
    ASSERT_TRUE(registry.add_function(fmt::format("full.k{}", i), nothing).ok());
  }
  // Two do not fit, so none is added.
  const base::Status two = registry.add_library(library("good"));
  EXPECT_EQ(two.code, ErrorCode::out_of_memory);
  EXPECT_THAT(two.text, AllOf(HasSubstr("2 kernel(s)"), HasSubstr("4095"), HasSubstr("4096")));
  EXPECT_TRUE(registry.add_function("full.last", nothing).ok());
  EXPECT_EQ(registry.add_function("full.more", nothing).code, ErrorCode::out_of_memory);
  EXPECT_EQ(registry.size(), KernelRegistry::kCapacity);
  EXPECT_EQ(registry.find("full.last"), KernelRegistry::kCapacity - 1);
  EXPECT_EQ(registry.entry(KernelRegistry::kCapacity), nullptr);
}

TEST(KernelFunction, SeesTheCall) {
  KernelRegistry registry;
  std::int64_t extent = 5;
  std::array<DLTensor, 2> tensors{};
  tensors[1].shape = &extent;
  std::array<rankcast_scalar, 1> scalars{};
  scalars[0].value.i64 = 42;
  int calls = 0;
  ASSERT_TRUE(registry
                  .add_function("my.kernel",
                                [&](const KernelCall& call) {
                                  ++calls;
                                  EXPECT_EQ(call.context.rank, 3);
                                  ASSERT_EQ(call.tensors.size(), 2u);
                                  EXPECT_EQ(call.tensors[1].shape, &extent);
                                  ASSERT_EQ(call.scalars.size(), 1u);
                                  EXPECT_EQ(call.scalars[0].value.i64, 42);
                                })
                  .ok());
  EXPECT_EQ(run(*registry.entry(0), tensors, scalars).status, RANKCAST_OK);
  EXPECT_EQ(calls, 1);
}

TEST(KernelFunction, WhatItThrowsBecomesTheFailure) {
  KernelRegistry registry;
  ASSERT_TRUE(
      registry
          .add_function("my.plain", [](const KernelCall&) { throw std::runtime_error("no bread"); })
          .ok());
  ASSERT_TRUE(registry
                  .add_function("my.error",
                                [](const KernelCall&) {
                                  throw Error(ErrorCode::invalid_argument, "no butter",
                                              {.argument = 2});
                                })
                  .ok());
  ASSERT_TRUE(registry.add_function("my.other", [](const KernelCall&) { throw 5; }).ok());
  ASSERT_TRUE(
      registry
          .add_function("my.long",
                        [](const KernelCall&) { throw std::runtime_error(std::string(1000, 'x')); })
          .ok());
  const Outcome plain = run(*registry.entry(0));
  EXPECT_EQ(plain.status, RANKCAST_FAILED);
  EXPECT_STREQ(plain.failure.text, "no bread");
  EXPECT_EQ(plain.failure.argument, -1);
  const Outcome error = run(*registry.entry(1));
  EXPECT_EQ(error.status, RANKCAST_FAILED);
  EXPECT_STREQ(error.failure.text, "no butter");
  EXPECT_EQ(error.failure.argument, 2);
  const Outcome other = run(*registry.entry(2));
  EXPECT_EQ(other.status, RANKCAST_FAILED);
  EXPECT_THAT(other.failure.text, HasSubstr("no std::exception"));
  const Outcome cut = run(*registry.entry(3));
  EXPECT_EQ(cut.status, RANKCAST_FAILED);
  EXPECT_EQ(std::string(cut.failure.text), std::string(RANKCAST_FAILURE_TEXT_BYTES - 1, 'x'));
}

// Ranks read entries while the host adds more; run under the thread sanitizer.
TEST(KernelRegistry, EntriesAreReadWhileOthersAreAdded) {
  KernelRegistry registry;
  constexpr std::uint32_t kKernels = 500;
  std::vector<std::thread> ranks;
  ranks.reserve(2);
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&] {
      std::uint32_t seen = 0;
      while (seen < kKernels) {
        const std::uint32_t size = registry.size();
        for (; seen < size; ++seen) {
          const KernelEntry* entry = registry.entry(seen);
          ASSERT_NE(entry, nullptr);
          ASSERT_EQ(entry->name, fmt::format("grow.k{}", seen));
          ASSERT_EQ(registry.find(entry->name), seen);
          ASSERT_EQ(run(*entry).status, RANKCAST_OK);
        }
        std::this_thread::yield();
      }
    });
  }
  for (std::uint32_t i = 0; i < kKernels; ++i) {
    EXPECT_TRUE(registry.add_function(fmt::format("grow.k{}", i), nothing).ok());
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace
}  // namespace rankcast::rank
