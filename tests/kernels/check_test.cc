// What each kernel refuses, and in which words.
// tests: src/kernels/check.cc
// tests: src/kernels/builtin.h
// tests: src/kernels/table.cc
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "kernels/host_call.h"

namespace rankcast::kernels {
namespace {

HostTensor f32(std::vector<std::int64_t> shape) {
  return HostTensor::dense(DType::f32, std::move(shape));
}

void expect_refused(const HostCall& call, int argument, const std::string& text) {
  const Outcome outcome = call.check();
  EXPECT_EQ(outcome.status, RANKCAST_FAILED);
  EXPECT_EQ(outcome.text, text);
  EXPECT_EQ(outcome.argument, argument);
}

TEST(Check, SumNamesTheArgumentThatDiffers) {
  HostTensor a = f32({2, 3});
  HostTensor half = HostTensor::dense(DType::f16, {2, 3});
  HostTensor flat = f32({6});
  HostTensor turned = f32({3, 2});
  expect_refused(HostCall("rankcast.sum").in(a).in(a).in(a).in(half).out(a), 3,
                 "argument 3: dtype f16, but argument 0 has f32; they must be equal");
  expect_refused(HostCall("rankcast.sum").in(a).in(flat).out(a), 1,
                 "argument 1: shape [6], but argument 0 has [2, 3]; they must be equal");
  expect_refused(HostCall("rankcast.sum").in(a).in(turned).out(a), 1,
                 "argument 1: shape [3, 2], but argument 0 has [2, 3]; they must be equal");
  expect_refused(HostCall("rankcast.sum").in(a).out(half), 1,
                 "argument 1: dtype f16, but argument 0 has f32; they must be equal");
  expect_refused(HostCall("rankcast.sum").in(a).out(flat), 1,
                 "argument 1: shape [6], but argument 0 has [2, 3]; they must be equal");
}

TEST(Check, SumNamesCountsAndDTypesThatItCannotTake) {
  HostTensor a = f32({2});
  HostTensor flag = HostTensor::dense(DType::boolean, {2});
  expect_refused(HostCall("rankcast.sum").out(a), -1,
                 "1 tensor(s) given, but the kernel takes 2 or more: in..., out");
  expect_refused(HostCall("rankcast.sum"), -1,
                 "0 tensor(s) given, but the kernel takes 2 or more: in..., out");
  expect_refused(HostCall("rankcast.sum").in(a).out(a).scalar(1.0), -1,
                 "1 scalar(s) given, but the kernel takes 0");
  expect_refused(HostCall("rankcast.sum").in(flag).out(flag), 0,
                 "argument 0: dtype bool, which cannot be added");
  HostCall unknown("rankcast.sum");
  unknown.in(a).out(a);
  unknown.tensors()[0].dtype = {.code = kDLComplex, .bits = 64, .lanes = 1};
  expect_refused(unknown, 0, "argument 0: dtype unknown (DLPack code 5, 64 bits, 1 lanes)");
}

TEST(Check, TagsMustAllowWhatTheKernelDoes) {
  HostTensor a = f32({2});
  expect_refused(HostCall("rankcast.sum").in(a).add(a, RANKCAST_OUT).out(a), 1,
                 "argument 1: tag out, but the kernel reads it: in, inout or no_dep");
  expect_refused(HostCall("rankcast.sum").in(a).in(a), 1,
                 "argument 1: tag in, but the kernel writes it: out, inout or no_dep");
  expect_refused(HostCall("rankcast.copy").add(a, RANKCAST_OUT).out(a), 0,
                 "argument 0: tag out, but the kernel reads it: in, inout or no_dep");
  expect_refused(HostCall("rankcast.copy").in(a).in(a), 1,
                 "argument 1: tag in, but the kernel writes it: out, inout or no_dep");
  expect_refused(HostCall("rankcast.fill").in(a).scalar(1.0), 0,
                 "argument 0: tag in, but the kernel writes it: out, inout or no_dep");
  HostTensor sums = HostTensor::dense(DType::i64, {1});
  expect_refused(HostCall("rankcast.checksum").add(a, RANKCAST_OUT).out(sums), 0,
                 "argument 0: tag out, but the kernel reads it: in, inout or no_dep");
  expect_refused(HostCall("rankcast.checksum").in(a).in(sums), 1,
                 "argument 1: tag in, but the kernel writes it: out, inout or no_dep");
  for (const rankcast_tag tag : {RANKCAST_INOUT, RANKCAST_NO_DEP}) {
    EXPECT_TRUE(HostCall("rankcast.sum").add(a, tag).add(a, tag).check().ok()) << tag;
  }
}

TEST(Check, CopyTakesTwoAlike) {
  HostTensor a = f32({2});
  HostTensor longer = f32({3});
  HostTensor wide = HostTensor::dense(DType::f64, {2});
  expect_refused(HostCall("rankcast.copy").in(a), -1,
                 "1 tensor(s) given, but the kernel takes 2: in, out");
  expect_refused(HostCall("rankcast.copy").in(a).in(a).out(a), -1,
                 "3 tensor(s) given, but the kernel takes 2: in, out");
  expect_refused(HostCall("rankcast.copy").in(a).out(a).scalar(std::int64_t{1}), -1,
                 "1 scalar(s) given, but the kernel takes 0");
  expect_refused(HostCall("rankcast.copy").in(a).out(longer), 1,
                 "argument 1: shape [3], but argument 0 has [2]; they must be equal");
  expect_refused(HostCall("rankcast.copy").in(a).out(wide), 1,
                 "argument 1: dtype f64, but argument 0 has f32; they must be equal");
}

TEST(Check, FillTakesOneTensorAndAValueThatFits) {
  HostTensor a = f32({2});
  HostTensor small = HostTensor::dense(DType::i8, {2});
  expect_refused(HostCall("rankcast.fill").out(a), -1, "0 scalar(s) given, but the kernel takes 1");
  expect_refused(HostCall("rankcast.fill").out(a).out(a).scalar(1.0), -1,
                 "2 tensor(s) given, but the kernel takes 1: out");
  expect_refused(HostCall("rankcast.fill").out(small).scalar(std::int64_t{300}), -1,
                 "scalar 0: 300, but argument 0 has dtype i8, which cannot hold it");
  expect_refused(HostCall("rankcast.fill").out(small).scalar(2.5), -1,
                 "scalar 0: 2.5, but argument 0 has dtype i8, which cannot hold it");
  HostCall strange("rankcast.fill");
  strange.out(a).scalar(1.0);
  strange.scalars()[0].type = 9;
  expect_refused(strange, -1, "scalar 0: type 9, but an i64 (1) or f64 (2) is wanted");
}

TEST(Check, ChecksumNeedsOneI64ATensor) {
  HostTensor a = f32({2, 2});
  HostTensor flags = HostTensor::dense(DType::boolean, {7});
  HostTensor two = HostTensor::dense(DType::i64, {2});
  HostTensor three = HostTensor::dense(DType::i64, {3});
  HostTensor column = HostTensor::dense(DType::i64, {2, 1});
  HostTensor narrow = HostTensor::dense(DType::i32, {2});
  EXPECT_TRUE(HostCall("rankcast.checksum").in(a).in(flags).out(two).check().ok());
  expect_refused(HostCall("rankcast.checksum").out(two), -1,
                 "1 tensor(s) given, but the kernel takes 2 or more: in..., out");
  expect_refused(HostCall("rankcast.checksum").in(a).in(flags).out(three), 2,
                 "argument 2: shape [3], but 2 checksum(s) need [2]");
  expect_refused(HostCall("rankcast.checksum").in(a).in(flags).out(column), 2,
                 "argument 2: shape [2, 1], but 2 checksum(s) need [2]");
  expect_refused(HostCall("rankcast.checksum").in(a).in(flags).out(narrow), 2,
                 "argument 2: dtype i32, but the checksums are i64");
  expect_refused(HostCall("rankcast.checksum").in(a).in(a).out(two).scalar(1.0), -1,
                 "1 scalar(s) given, but the kernel takes 0");
}

TEST(Check, LongShapesAreCutAndStayTexts) {
  const std::vector<std::int64_t> long_shape(8, 1);
  HostTensor a = f32(long_shape);
  HostTensor b = f32(long_shape);
  HostCall call("rankcast.sum");
  call.in(a).out(b);
  std::vector<std::int64_t> extents(8, 1'000'000'000'000'000'000);
  call.tensors()[1].shape = extents.data();
  const Outcome outcome = call.check();
  EXPECT_EQ(outcome.argument, 1);
  EXPECT_LT(outcome.text.size(), std::size_t{RANKCAST_FAILURE_TEXT_BYTES});
  EXPECT_THAT(outcome.text, ::testing::StartsWith("argument 1: shape [1000000000000000000, 1000"));
}

TEST(Library, ExportsItsTableAlone) {
  const std::string command = std::string("nm -D --defined-only ") + RANKCAST_TEST_KERNELS;
  const std::unique_ptr<FILE, int (*)(FILE*)> nm(popen(command.c_str(), "r"), pclose);
  ASSERT_NE(nm, nullptr);
  std::string listed(4096, '\0');
  listed.resize(std::fread(listed.data(), 1, listed.size(), nm.get()));
  EXPECT_EQ(std::count(listed.begin(), listed.end(), '\n'), 1) << listed;
  EXPECT_THAT(listed, ::testing::HasSubstr(" rankcast_kernels\n"));
}

}  // namespace
}  // namespace rankcast::kernels
