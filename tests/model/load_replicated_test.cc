#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "rankcast/mesh.h"
#include "rankcast/safetensors.h"
#include "support/expect_error.h"
#include "support/safetensors_bytes.h"
#include "support/temp_folder.h"

namespace rankcast {
namespace {

constexpr int kRanks = 3;

// A scalar, a matrix and bytes, whose data lie in this order; each byte differs from its
// neighbours.
constexpr const char* kHeader = R"({"bytes":{"dtype":"U8","shape":[5],"data_offsets":[32,37]},)"
                                R"("matrix":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]},)"
                                R"("scalar":{"dtype":"F64","shape":[],"data_offsets":[0,8]}})";

std::string data() {
  std::string bytes(37, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i + 1);
  return bytes;
}

class LoadReplicatedTest : public testing::Test {
 protected:
  SafetensorsFile opened(const std::string& header, const std::string& bytes,
                         std::size_t beyond = 0) const {
    return SafetensorsFile::open(folder_.write(
        "model.safetensors", test::safetensors_bytes(test::padded(header, beyond), bytes)));
  }

  Mesh mesh_ = Mesh::open({.devices = "cpu:0-2"});

 private:
  test::TempFolder folder_;
};

// Every shard's bytes, one rank's behind the other's.
std::string downloaded(Mesh& mesh, const StackedDeviceTensor& tensor) {
  std::vector<std::uint64_t> words(tensor.size_bytes() / 8 + 1);
  mesh.download(tensor,
                MutableHostView(static_cast<void*>(words.data()), tensor.dtype(), tensor.shape()));
  return {reinterpret_cast<const char*>(words.data()), tensor.size_bytes()};
}

TEST_F(LoadReplicatedTest, EveryRankHasEveryTensorAlignedOrNot) {
  for (std::size_t beyond = 0; beyond < 8; ++beyond) {
    const SafetensorsFile file = opened(kHeader, data(), beyond);
    const std::vector<ResidentTensor> resident = load_replicated(mesh_, file);
    ASSERT_EQ(resident.size(), 3U);
    EXPECT_EQ(resident[0].name, "scalar");
    EXPECT_EQ(resident[0].tensor.shape(), (Shape{kRanks, 1}));
    EXPECT_EQ(resident[0].tensor.dtype(), DType::f64);
    EXPECT_EQ(resident[1].name, "matrix");
    EXPECT_EQ(resident[1].tensor.shape(), (Shape{kRanks, 2, 3}));
    EXPECT_EQ(resident[2].name, "bytes");
    EXPECT_EQ(resident[2].tensor.shape(), (Shape{kRanks, 5}));
    const std::size_t begins[] = {0, 8, 32, 37};
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string one = data().substr(begins[i], begins[i + 1] - begins[i]);
      EXPECT_EQ(downloaded(mesh_, resident[i].tensor), one + one + one) << resident[i].name;
      mesh_.free(resident[i].tensor);
    }
    EXPECT_EQ(mesh_.stats().live_buffers, 0U);
  }
}

TEST_F(LoadReplicatedTest, FileWithoutTensors) {
  EXPECT_TRUE(load_replicated(mesh_, opened("{}", "")).empty());
}

// A replica has one more dimension than the file's tensor, and eight are the most.
TEST_F(LoadReplicatedTest, FailureNamesTheTensorAndFreesTheOthers) {
  const SafetensorsFile file =
      opened(R"({"first":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
             R"("wide":{"dtype":"U8","shape":[1,1,1,1,1,1,1,2],"data_offsets":[4,6]}})",
             "abcdef");
  test::expect_error(ErrorCode::invalid_argument, {"tensor \"wide\"", file.path()},
                     [&] { load_replicated(mesh_, file); });
  EXPECT_EQ(mesh_.stats().live_buffers, 0U);
  EXPECT_EQ(mesh_.stats().live_bytes, 0U);
}

TEST_F(LoadReplicatedTest, ClosedMesh) {
  mesh_.close();
  test::expect_error(ErrorCode::closed, {"tensor \"scalar\""},
                     [&] { load_replicated(mesh_, opened(kHeader, data())); });
}

}  // namespace
}  // namespace rankcast
