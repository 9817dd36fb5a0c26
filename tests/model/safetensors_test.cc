#include "rankcast/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cstring>
#include <utility>

#include "support/expect_error.h"
#include "support/safetensors_bytes.h"
#include "support/temp_folder.h"

namespace rankcast {
namespace {

using test::expect_error;
using test::padded;

class SafetensorsTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path(name); }
  std::string written(const std::string& bytes) const {
    return folder_.write("model.safetensors", bytes);
  }

 private:
  test::TempFolder folder_;
};

constexpr const char* kTwo = R"({"__metadata__":{"format":"pt"},)"
                             R"("weight":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                             R"("step":{"dtype":"I64","shape":[],"data_offsets":[16,24]}})";

std::string two_data() {
  const std::array<float, 4> weight{1.0F, 2.0F, 3.0F, 4.0F};
  const std::int64_t step = 1234567890123;
  std::string data(24, '\0');
  std::memcpy(data.data(), weight.data(), 16);
  std::memcpy(data.data() + 16, &step, 8);
  return data;
}

TEST_F(SafetensorsTest, ViewsHaveTheFilesValues) {
  const std::string name = written(test::safetensors_bytes(padded(kTwo, 0), two_data()));
  const SafetensorsFile file = SafetensorsFile::open(name);
  EXPECT_EQ(file.path(), name);
  ASSERT_EQ(file.entries().size(), 2U);
  EXPECT_EQ(file.entries()[0].name, "weight");
  EXPECT_THAT(file.metadata(), testing::ElementsAre(testing::Pair("format", "pt")));
  ASSERT_TRUE(file.aligned(file.entries()[0]));
  const HostView weight = file.view(file.entries()[0]);
  EXPECT_EQ(weight.dtype(), DType::f32);
  EXPECT_EQ(weight.shape(), (Shape{2, 2}));
  EXPECT_EQ(static_cast<const float*>(weight.data())[3], 4.0F);
  const HostView step = file.view(file.entries()[1]);
  EXPECT_EQ(step.shape(), Shape{1});
  EXPECT_EQ(*static_cast<const std::int64_t*>(step.data()), 1234567890123);
}

TEST_F(SafetensorsTest, FindsByName) {
  const SafetensorsFile file =
      SafetensorsFile::open(written(test::safetensors_bytes(padded(kTwo, 0), two_data())));
  EXPECT_EQ(file.find("step"), &file.entries()[1]);
  EXPECT_EQ(file.find("weight"), &file.entries()[0]);
  EXPECT_EQ(file.find("__metadata__"), nullptr);
  EXPECT_EQ(file.find(""), nullptr);
}

TEST_F(SafetensorsTest, MovedFilesKeepTheirViews) {
  SafetensorsFile first =
      SafetensorsFile::open(written(test::safetensors_bytes(padded(kTwo, 0), two_data())));
  const HostView view = first.view(first.entries()[0]);
  const SafetensorsFile second = std::move(first);
  EXPECT_EQ(second.view(second.entries()[0]).data(), view.data());
  EXPECT_EQ(static_cast<const float*>(view.data())[0], 1.0F);
}

TEST_F(SafetensorsTest, UnalignedDataHaveBytesButNoView) {
  for (std::size_t beyond = 1; beyond < 8; ++beyond) {
    const SafetensorsFile file =
        SafetensorsFile::open(written(test::safetensors_bytes(padded(kTwo, beyond), two_data())));
    for (const SafetensorsFile::Entry& entry : file.entries()) {
      const bool aligned = beyond % size_bytes(entry.dtype) == 0;
      EXPECT_EQ(file.aligned(entry), aligned);
      if (aligned) {
        EXPECT_EQ(file.view(entry).data(), file.bytes(entry).data());
      } else {
        expect_error(ErrorCode::invalid_argument, {entry.name, "multiple of the", file.path()},
                     [&] { file.view(entry); });
      }
    }
    const auto bytes = file.bytes(file.entries()[1]);
    std::int64_t step = 0;
    ASSERT_EQ(bytes.size(), sizeof step);
    std::memcpy(&step, bytes.data(), sizeof step);
    EXPECT_EQ(step, 1234567890123);
  }
}

TEST_F(SafetensorsTest, EntriesOfAnotherFileCannotReachBeyond) {
  const SafetensorsFile file =
      SafetensorsFile::open(written(test::safetensors_bytes(padded(kTwo, 0), two_data())));
  SafetensorsFile::Entry entry = file.entries()[1];
  entry.offset_bytes += 8;
  expect_error(ErrorCode::invalid_argument, {"step", "not of this file"},
               [&] { file.view(entry); });
  expect_error(ErrorCode::invalid_argument, {"not of this file"}, [&] { file.bytes(entry); });
  expect_error(ErrorCode::invalid_argument, {"not of this file"},
               [&] { (void)file.aligned(entry); });
  entry = file.entries()[1];
  entry.size_bytes = UINT64_MAX;
  expect_error(ErrorCode::invalid_argument, {"not of this file"}, [&] { file.bytes(entry); });
  entry = file.entries()[1];
  entry.extents = {1000};
  expect_error(ErrorCode::invalid_argument, {"not of this file"}, [&] { file.view(entry); });
}

TEST_F(SafetensorsTest, FaultsNameTheFile) {
  const std::string name = written(test::safetensors_bytes("{}", "x"));
  expect_error(ErrorCode::invalid_argument,
               {"safetensors file \"" + name + "\": the last 1 bytes of the file"},
               [&] { SafetensorsFile::open(name); });
}

TEST_F(SafetensorsTest, EmptyFile) {
  expect_error(ErrorCode::invalid_argument, {"model.safetensors", "0 bytes, too few"},
               [&] { SafetensorsFile::open(written("")); });
}

TEST_F(SafetensorsTest, FilesThatCannotBeRead) {
  expect_error(ErrorCode::invalid_argument,
               {path("absent"), "cannot be opened", "No such file or directory"},
               [&] { SafetensorsFile::open(path("absent")); });
  expect_error(ErrorCode::invalid_argument, {"not a regular file"},
               [&] { SafetensorsFile::open(path("")); });
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  expect_error(ErrorCode::invalid_argument, {"not a regular file"},
               [&] { SafetensorsFile::open(path("pipe")); });
}

}  // namespace
}  // namespace rankcast
