#include "mesh/random_program.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>

namespace rankcast::test {
namespace {

std::string list(const std::vector<std::int64_t>& values) {
  std::string text;
  for (const std::int64_t value : values)
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  return "{" + text + "}";
}

std::string text_of(const ViewStep& step) {
  switch (step.kind) {
    case ViewStep::Kind::slice:
      return ".slice(" + std::to_string(step.dim) + ", " + std::to_string(step.begin) + ", " +
             std::to_string(step.end) + ", " + std::to_string(step.step) + ")";
    case ViewStep::Kind::transpose:
      return ".transpose(" + std::to_string(step.dim) + ", " + std::to_string(step.other) + ")";
    case ViewStep::Kind::strided:
      break;
  }
  return ".strided(" + list(step.shape) + ", " + list(step.strides) + ", " +
         std::to_string(step.offset) + ")";
}

std::string_view name_of(Tag tag) {
  constexpr std::string_view kNames[] = {"", "in", "out", "inout", "no_dep"};
  return kNames[static_cast<std::size_t>(tag)];
}

std::string_view name_of(Given given) {
  constexpr std::string_view kNames[] = {"", "arg ", "ref ", "shard_on ", "shard "};
  return kNames[static_cast<std::size_t>(given)];
}

std::string_view name_of(ProgramTask::Kind kind) {
  constexpr std::string_view kNames[] = {"fill", "copy", "sum", "orch.copy", "yield"};
  return kNames[static_cast<std::size_t>(kind)];
}

bool share_written_bytes(const ProgramArg& a, const ProgramArg& b) {
  const auto may_write = [](const ProgramArg& arg) { return arg.tag != Tag::in; };
  return (may_write(a) || may_write(b)) && share_bytes(a.view, b.view);
}

/// [i][j]: task j comes after task i by lane order and `after`.
std::vector<std::vector<bool>> explicit_order(const std::vector<ProgramTask>& tasks) {
  const std::size_t count = tasks.size();
  std::vector<std::vector<bool>> before(count, std::vector<bool>(count));
  for (std::size_t later = 0; later < count; ++later) {
    const auto add = [&](std::size_t earlier) {
      before[earlier][later] = true;
      for (std::size_t first = 0; first < earlier; ++first)
        before[first][later] = before[first][later] || before[first][earlier];
    };
    for (std::size_t earlier = 0; earlier < later; ++earlier) {
      if (tasks[earlier].rank == tasks[later].rank) add(earlier);
    }
    for (const std::size_t earlier : tasks[later].after) add(earlier);
  }
  return before;
}

}  // namespace

HostLayout::HostLayout(std::size_t buffer, const BufferSpec& spec)
    : buffer_(buffer), shape_(spec.shape), strides_(spec.shape.size(), 1) {
  for (std::size_t dim = shape_.size() - 1; dim > 0; --dim)
    strides_[dim - 1] = strides_[dim] * shape_[dim];
}

HostLayout HostLayout::slice(int dim, std::int64_t begin, std::int64_t end,
                             std::int64_t step) const {
  HostLayout view = *this;
  const auto at = static_cast<std::size_t>(dim);
  view.offset_ += begin * strides_[at];
  view.shape_[at] = (end - begin + step - 1) / step;
  view.strides_[at] *= step;
  view.steps_.push_back(
      {.kind = ViewStep::Kind::slice, .dim = dim, .begin = begin, .end = end, .step = step});
  return view;
}

HostLayout HostLayout::transpose(int dim, int other) const {
  HostLayout view = *this;
  const auto a = static_cast<std::size_t>(dim);
  const auto b = static_cast<std::size_t>(other);
  std::swap(view.shape_[a], view.shape_[b]);
  std::swap(view.strides_[a], view.strides_[b]);
  view.steps_.push_back({.kind = ViewStep::Kind::transpose, .dim = dim, .other = other});
  return view;
}

HostLayout HostLayout::strided(std::vector<std::int64_t> shape, std::vector<std::int64_t> strides,
                               std::int64_t offset) const {
  HostLayout view = *this;
  view.offset_ += offset;
  view.shape_ = shape;
  view.strides_ = strides;
  view.steps_.push_back({.kind = ViewStep::Kind::strided,
                         .shape = std::move(shape),
                         .strides = std::move(strides),
                         .offset = offset});
  return view;
}

HostLayout HostLayout::moved_to(std::size_t buffer) const {
  HostLayout view = *this;
  view.buffer_ = buffer;
  return view;
}

std::int64_t HostLayout::element_count() const {
  return std::accumulate(shape_.begin(), shape_.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t HostLayout::span() const {
  std::int64_t last = 0;
  for (std::size_t dim = 0; dim < shape_.size(); ++dim) last += (shape_[dim] - 1) * strides_[dim];
  return last + 1;
}

std::vector<std::int64_t> HostLayout::elements() const {
  std::vector<std::int64_t> places{offset_};
  for (std::size_t dim = 0; dim < shape_.size(); ++dim) {
    std::vector<std::int64_t> next;
    next.reserve(places.size() * static_cast<std::size_t>(shape_[dim]));
    for (const std::int64_t place : places) {
      for (std::int64_t i = 0; i < shape_[dim]; ++i) next.push_back(place + i * strides_[dim]);
    }
    places = std::move(next);
  }
  return places;
}

bool HostLayout::repeats_elements() const {
  std::vector<std::int64_t> places = elements();
  std::ranges::sort(places);
  return std::ranges::adjacent_find(places) != places.end();
}

std::string HostLayout::text() const {
  std::string text = "b" + std::to_string(buffer_);
  for (const ViewStep& step : steps_) text += text_of(step);
  return text;
}

bool share_bytes(const HostLayout& a, const HostLayout& b) {
  if (a.buffer() != b.buffer()) return false;
  std::vector<std::int64_t> places = a.elements();
  std::ranges::sort(places);
  return std::ranges::any_of(
      b.elements(), [&](std::int64_t place) { return std::ranges::binary_search(places, place); });
}

bool must_be_refused(const ProgramTask& task) {
  for (std::size_t i = 0; i < task.args.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const ProgramArg& a = task.args[i];
      const ProgramArg& b = task.args[j];
      if (a.tag == Tag::no_dep || b.tag == Tag::no_dep) continue;
      if ((is_written(a) || is_written(b)) && share_bytes(a.view, b.view)) return true;
    }
  }
  return false;
}

bool conflict(const ProgramTask& a, const ProgramTask& b) {
  return std::ranges::any_of(a.args, [&](const ProgramArg& arg) {
    return std::ranges::any_of(
        b.args, [&](const ProgramArg& other) { return share_written_bytes(arg, other); });
  });
}

bool no_dep_is_safe(const std::vector<ProgramTask>& tasks, std::size_t at, const ProgramArg& arg) {
  const std::vector<std::vector<bool>> before = explicit_order(tasks);
  for (std::size_t other = 0; other < tasks.size(); ++other) {
    if (before[other][at] || before[at][other]) continue;
    for (const ProgramArg& touching : tasks[other].args) {
      if (&touching != &arg && share_written_bytes(arg, touching)) return false;
    }
  }
  return true;
}

bool no_dep_is_safe(const std::vector<ProgramTask>& tasks) {
  for (std::size_t at = 0; at < tasks.size(); ++at) {
    for (const ProgramArg& arg : tasks[at].args) {
      if (arg.tag == Tag::no_dep && !no_dep_is_safe(tasks, at, arg)) return false;
    }
  }
  return true;
}

std::vector<std::size_t> renewed_with(const std::vector<BufferSpec>& specs, std::size_t buffer) {
  const int stack = specs[buffer].stack;
  if (stack == BufferSpec::kNoStack) return {buffer};
  std::vector<std::size_t> shards;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].stack == stack) shards.push_back(i);
  }
  return shards;
}

std::string text_of(const ProgramTask& task) {
  std::string text(name_of(task.kind));
  text += " on rank " + std::to_string(task.rank);
  for (const ProgramArg& arg : task.args) {
    text += ", ";
    text += name_of(arg.tag);
    text += " ";
    text += name_of(arg.given);
    text += arg.view.text();
  }
  if (task.kind == ProgramTask::Kind::fill || task.kind == ProgramTask::Kind::yield)
    text += ", " + std::to_string(task.value);
  for (const std::size_t earlier : task.after) text += ", after task " + std::to_string(earlier);
  return text;
}

std::string text_of(const Scenario& scenario) {
  std::string text;
  for (std::size_t i = 0; i < scenario.buffers.size(); ++i) {
    const BufferSpec& buffer = scenario.buffers[i];
    text += "b" + std::to_string(i) + ": rank " + std::to_string(buffer.rank) + ", ";
    text += std::string(dtype_name(buffer.dtype)) + list(buffer.shape);
    if (buffer.stack != BufferSpec::kNoStack) text += ", of stack " + std::to_string(buffer.stack);
    text += "\n";
  }
  for (const HostStep& step : scenario.steps) {
    switch (step.kind) {
      case HostStep::Kind::submit:
        text += "submit program " + std::to_string(step.program) + "\n";
        for (std::size_t i = 0; i < step.tasks.size(); ++i)
          text += "  task " + std::to_string(i) + ": " + text_of(step.tasks[i]) + "\n";
        break;
      case HostStep::Kind::upload:
        text +=
            "upload " + step.views[0].text() + ", pattern " + std::to_string(step.pattern) + "\n";
        break;
      case HostStep::Kind::download:
        text += "download " + step.views[0].text() + "\n";
        break;
      case HostStep::Kind::look:
        text += "look at " + step.views[0].text() + "\n";
        break;
      case HostStep::Kind::renew:
        text += "renew b" + std::to_string(step.buffer) + ", pattern " +
                std::to_string(step.pattern) + "\n";
        break;
      case HostStep::Kind::wait:
        text += "wait\n";
        break;
      case HostStep::Kind::compare:
        text += "compare\n";
        break;
    }
  }
  return text;
}

}  // namespace rankcast::test
