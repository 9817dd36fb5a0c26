// Views of tensors: transfers touch their elements alone, and tasks over them give what plain loops
// give.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "mesh/support.h"
#include "support/seed.h"
#include "tensor/random_views.h"

namespace rankcast::test {
namespace {

using detail::TensorAccess;

class MeshViews : public OnEachLink {
 protected:
  static Mesh open() {
    MeshOptions options;
    options.devices = "cpu:0-1";
    options.link = GetParam();
    return Mesh::open(options);
  }

  /// f32, 0, 1, 2, ...
  DeviceTensor counted(int rank, const Shape& shape) {
    const std::vector<float> values = counting(static_cast<std::size_t>(shape.element_count()));
    return mesh_.alloc(rank, HostView(values.data(), shape));
  }

  Mesh mesh_ = open();
};

/// The numbers of a view's elements within its tensor, in the view's order.
std::vector<std::size_t> places_of(const DeviceTensor& view) {
  std::vector<std::size_t> places;
  each_element(TensorAccess::layout(view), [&](std::size_t at) {
    places.push_back((TensorAccess::offset_bytes(view) + at) / size_bytes(view.dtype()));
  });
  return places;
}

/// What a tensor that counts from 0 holds at a view's elements.
std::vector<float> counted_at(const DeviceTensor& view) {
  std::vector<float> values;
  for (const std::size_t place : places_of(view)) values.push_back(static_cast<float>(place));
  return values;
}

TEST_P(MeshViews, TransfersTouchTheElementsOfTheViewAlone) {
  const DeviceTensor matrix = counted(1, {6, 8});
  for (const DeviceTensor& view :
       {matrix.slice(0, 2, 4), matrix.slice(1, 3, 5), matrix.slice(1, 1, 8, 3).slice(0, 0, 6, 2),
        matrix.transpose(0, 1), matrix.slice(1, 2, 6).transpose(0, 1), matrix.strided({5}, {9}, 2),
        matrix.slice(0, 5, 6).slice(1, 7, 8)}) {
    std::vector<float> expected = counting(48);
    EXPECT_EQ(values_of(mesh_, view), counted_at(view));
    const std::vector<float> up =
        counting(static_cast<std::size_t>(view.shape().element_count()), 1000.0F);
    mesh_.upload(view, HostView(up.data(), view.shape()));
    const std::vector<std::size_t> places = places_of(view);
    for (std::size_t i = 0; i < places.size(); ++i) expected[places[i]] = up[i];
    EXPECT_EQ(values_of(mesh_, matrix), expected);
    EXPECT_EQ(values_of(mesh_, view), up);
    expected = counting(48);
    mesh_.upload(matrix, HostView(expected.data(), {6, 8}));
  }
}

TEST_P(MeshViews, RandomViewsOfEveryDtypeComeAndGo) {
  RandomViews random(test_seed());
  for (int round = 0; round < 60; ++round) {
    const DeviceTensor plan = random.base(4, 6, 200);
    const std::size_t bytes = plan.size_bytes();
    std::vector<std::uint64_t> up(bytes / 8 + 1);
    for (std::uint64_t& word : up) word = static_cast<std::uint64_t>(random.number(0, INT64_MAX));
    const DeviceTensor tensor = mesh_.alloc(0, HostView(up.data(), plan.dtype(), plan.shape()));
    const DeviceTensor view = random.sliced(tensor);
    const std::size_t item = size_bytes(view.dtype());
    std::vector<std::uint64_t> down(view.size_bytes() / 8 + 1);
    mesh_.download(view, MutableHostView(down.data(), view.dtype(), view.shape()));
    const auto* from = reinterpret_cast<const std::byte*>(up.data());
    const auto* found = reinterpret_cast<const std::byte*>(down.data());
    const std::vector<std::size_t> places = places_of(view);
    for (std::size_t i = 0; i < places.size(); ++i) {
      ASSERT_EQ(std::memcmp(found + i * item, from + places[i] * item, item), 0)
          << "round " << round << " element " << i;
    }
    mesh_.free(tensor);
  }
}

TEST_P(MeshViews, ShardsOfStacksHaveViewsToo) {
  const std::vector<float> up = counting(24);
  const StackedDeviceTensor stack = mesh_.alloc_stacked(HostView(up.data(), {2, 3, 4}));
  const DeviceTensor column = stack.shard_on(1).slice(1, 2, 3);
  EXPECT_EQ(column.rank(), 1);
  EXPECT_EQ(values_of(mesh_, column), (std::vector<float>{14, 18, 22}));
  const std::vector<float> other = {1, 2, 3};
  mesh_.upload(column, HostView(other.data(), {3, 1}));
  std::vector<float> expected = up;
  expected[14] = 1, expected[18] = 2, expected[22] = 3;
  EXPECT_EQ(values_of(mesh_, stack), expected);
}

// More than one piece of staging memory where there is one: cut between rows.
TEST_P(MeshViews, LargeViewsGoInPieces) {
  constexpr std::int64_t kRows = 3000, kColumns = 8192, kTaken = 6001;
  const DeviceTensor matrix = mesh_.alloc(0, {kRows, kColumns}, DType::f32);
  const std::vector<float> zeros(static_cast<std::size_t>(kRows * kColumns));
  mesh_.upload(matrix, HostView(zeros.data(), {kRows, kColumns}));
  const DeviceTensor view = matrix.slice(1, 5, 5 + kTaken);
  const std::vector<float> up = counting(static_cast<std::size_t>(kRows * kTaken), 1.0F);
  const std::uint64_t before = mesh_.stats().transfers;
  mesh_.upload(view, HostView(up.data(), view.shape()));
  EXPECT_EQ(mesh_.stats().transfers - before, GetParam() == "process" ? 2U : 1U);
  EXPECT_EQ(values_of(mesh_, view), up);
  const std::vector<float> all = values_of(mesh_, matrix);
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (const std::int64_t column : {std::int64_t{0}, std::int64_t{4}, 5 + kTaken, kColumns - 1})
      ASSERT_EQ(all[static_cast<std::size_t>(row * kColumns + column)], 0.0F);
  }
}

TEST_P(MeshViews, RefusesHostMemoryOfAnotherShape) {
  const DeviceTensor view = counted(0, {4, 6}).slice(1, 0, 2);
  std::vector<float> host(24);
  expect_error(ErrorCode::invalid_argument, {"upload", "f32[4, 6]", "f32[4, 2]"},
               [&] { mesh_.upload(view, HostView(host.data(), {4, 6})); });
  expect_error(ErrorCode::invalid_argument, {"download", "f32[8]", "f32[4, 2]"},
               [&] { mesh_.download(view, MutableHostView(host.data(), {8})); });
}

// Every built-in kernel over rows, columns, every second element and a transpose.
TEST_P(MeshViews, TasksOverViewsGiveWhatLoopsGive) {
  const DeviceTensor matrix = counted(0, {8, 8});
  const auto even = [](const DeviceTensor& t) { return t.slice(1, 0, 8, 2).slice(0, 1, 8, 2); };
  using Make = std::function<DeviceTensor(const DeviceTensor&)>;
  const std::vector<std::pair<const char*, Make>> kinds = {
      {"rows", [](const DeviceTensor& t) { return t.slice(0, 2, 6).slice(1, 0, 4); }},
      {"columns", [](const DeviceTensor& t) { return t.slice(1, 3, 7).slice(0, 4, 8); }},
      {"even", even},
      {"turned", [&](const DeviceTensor& t) { return even(t).transpose(0, 1); }},
  };
  for (const auto& [from_name, from] : kinds) {
    for (const auto& [to_name, to] : kinds) {
      SCOPED_TRACE(std::string(from_name) + " to " + to_name);
      const DeviceTensor target = counted(0, {8, 8});
      const DeviceTensor source = from(matrix);
      const DeviceTensor written = to(target);
      const DeviceTensor total = mesh_.alloc(0, {4, 4}, DType::f32);
      mesh_
          .submit(Program("views",
                          [&](Orchestrator& orch, const Arguments&) {
                            orch.submit("rankcast.copy", 0, TaskArgs{}.in(source).out(written));
                            orch.submit("rankcast.sum", 0,
                                        TaskArgs{}.in(written).in(source).in(source).out(total));
                          }),
                  {})
          .wait();
      std::vector<float> expected = counting(64);
      const std::vector<float> copied = counted_at(source);
      const std::vector<std::size_t> places = places_of(written);
      for (std::size_t i = 0; i < places.size(); ++i) expected[places[i]] = copied[i];
      EXPECT_EQ(values_of(mesh_, target), expected);
      std::vector<float> tripled = copied;
      for (float& value : tripled) value *= 3;
      EXPECT_EQ(values_of(mesh_, total), tripled);
      mesh_.free(target);
      mesh_.free(total);
    }
  }
}

TEST_P(MeshViews, AViewIsAnArgumentOfASubmit) {
  const DeviceTensor matrix = counted(0, {4, 6});
  const DeviceTensor column = mesh_.alloc(0, {4, 1}, DType::f32);
  const Program copy("copy", [](Orchestrator& orch, const Arguments& args) {
    orch.submit("rankcast.copy", 0, TaskArgs{}.in(args[0]).out(args[1]));
  });
  for (const std::int64_t at : {0, 5, 3, 3}) {
    mesh_.submit(copy, {matrix.slice(1, at, at + 1), column}).wait();
    const auto first = static_cast<float>(at);
    EXPECT_EQ(values_of(mesh_, column),
              (std::vector<float>{first, first + 6, first + 12, first + 18}));
  }
}

INSTANTIATE_TEST_SUITE_P(Links, MeshViews, all_links(), name_of_link);

}  // namespace
}  // namespace rankcast::test
