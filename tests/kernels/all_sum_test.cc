// What the check of rankcast.all_sum takes. That members meet is shown by tests/mesh/group_test.cc.
// tests: src/kernels/all_sum.cc
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/host_call.h"

namespace rankcast::kernels {
namespace {

using ::testing::HasSubstr;

TEST(AllSum, TakesDenseTensorsOfTwoDTypesAndOneShape) {
  for (const DType dtype : kAllDTypes) {
    HostTensor in = HostTensor::dense(dtype, {2, 3});
    HostTensor out = HostTensor::dense(dtype, {2, 3});
    const bool good = HostCall("rankcast.all_sum").in(in).out(out).check().ok();
    EXPECT_EQ(good, dtype == DType::f32 || dtype == DType::i64) << dtype_name(dtype);
  }
  HostTensor in = HostTensor::dense(DType::f32, {2, 3});
  HostTensor other = HostTensor::dense(DType::f32, {3, 2});
  HostTensor transposed(DType::f32, {2, 3}, {1, 2});
  EXPECT_FALSE(HostCall("rankcast.all_sum").in(in).out(other).check().ok());
  EXPECT_FALSE(HostCall("rankcast.all_sum").in(transposed).out(in).check().ok());
  EXPECT_FALSE(HostCall("rankcast.all_sum").out(in).check().ok());
}

}  // namespace
}  // namespace rankcast::kernels
