#include "mesh/program_generator.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace rankcast::test {
namespace {

std::int64_t product(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

bool is_refused(const std::vector<ProgramTask>& tasks) {
  return std::ranges::any_of(tasks, must_be_refused);
}

bool has_no_dep(const std::vector<ProgramTask>& tasks) {
  return std::ranges::any_of(tasks, [](const ProgramTask& task) {
    return std::ranges::any_of(task.args,
                               [](const ProgramArg& arg) { return arg.tag == Tag::no_dep; });
  });
}

}  // namespace

Scenario ProgramGenerator::make(std::size_t programs) {
  make_buffers();
  serial_.emplace(scenario_.buffers);
  for (std::size_t i = 0; i < scenario_.buffers.size(); ++i) {
    if (renewed_with(scenario_.buffers, i).front() == i) renew(i);
  }
  while (scenario_.programs < programs) add_programs();
  scenario_.steps.push_back({.kind = HostStep::Kind::compare});
  return std::move(scenario_);
}

// A few dtypes and shapes, so that many tensors fit each other.
void ProgramGenerator::make_buffers() {
  const std::vector<DType> all{DType::f32, DType::i32, DType::i64, DType::f64,
                               DType::i16, DType::u8,  DType::i8};
  const std::vector<DType> dtypes{chance(50) ? DType::f32 : DType::i32, one_of(all)};
  std::vector<std::vector<std::int64_t>> shapes;
  for (int i = 0; i < 3; ++i) {
    std::vector<std::int64_t> shape(static_cast<std::size_t>(between(1, 3)));
    const std::int64_t largest = shape.size() == 1 ? 300 : shape.size() == 2 ? 20 : 7;
    for (std::int64_t& extent : shape) extent = between(1, largest);
    if (chance(8)) shape.back() *= 50;
    if (product(shape) < 4) shape.back() += 4;
    shapes.push_back(shape);
  }
  for (int rank = 0; rank < ranks_; ++rank) {
    for (std::int64_t left = between(2, 4); left > 0; --left) {
      scenario_.buffers.push_back({.rank = rank, .dtype = one_of(dtypes), .shape = one_of(shapes)});
    }
  }
  const auto stacks = static_cast<int>(between(0, 2));
  for (int stack = 0; stack < stacks; ++stack) {
    std::vector<int> ranks(static_cast<std::size_t>(ranks_));
    std::iota(ranks.begin(), ranks.end(), 0);
    std::ranges::shuffle(ranks, random_);
    ranks.resize(static_cast<std::size_t>(between(1, ranks_)));
    const DType dtype = one_of(dtypes);
    const std::vector<std::int64_t> shape = one_of(shapes);
    for (const int rank : ranks)
      scenario_.buffers.push_back({.rank = rank, .dtype = dtype, .shape = shape, .stack = stack});
  }
}

std::size_t ProgramGenerator::buffer_on(int rank) {
  std::vector<std::size_t> there;
  for (std::size_t i = 0; i < scenario_.buffers.size(); ++i) {
    if (scenario_.buffers[i].rank == rank) there.push_back(i);
  }
  return one_of(there);
}

/// Elements of a row-major box whose dimensions were shuffled and spread, somewhere in `view`; or,
/// if they may repeat, any that fit.
HostLayout ProgramGenerator::random_strided(const HostLayout& view,
                                            const std::vector<std::int64_t>& shape,
                                            bool may_repeat) {
  const std::int64_t room = view.span();
  for (int spread = static_cast<int>(between(0, 3)); spread >= 0; --spread) {
    std::vector<std::size_t> dims(shape.size());
    std::iota(dims.begin(), dims.end(), 0u);
    std::ranges::shuffle(dims, random_);
    std::vector<std::int64_t> strides(shape.size());
    std::int64_t next = 1;
    std::int64_t span = 1;
    for (const std::size_t dim : dims) {
      strides[dim] = may_repeat ? between(1, spread + 1) : next + between(0, spread);
      next = strides[dim] * shape[dim];
      span += (shape[dim] - 1) * strides[dim];
    }
    if (span <= room) return view.strided(shape, strides, between(0, room - span));
  }
  return view;
}

HostLayout ProgramGenerator::random_view(std::size_t buffer) {
  HostLayout view = whole(buffer);
  for (std::int64_t steps = between(0, 3); steps > 0; --steps) {
    const int dim = static_cast<int>(below(view.dims()));
    switch (below(5)) {
      case 0:
        view = view.transpose(dim, static_cast<int>(below(view.dims())));
        break;
      case 1: {
        std::vector<std::int64_t> shape(static_cast<std::size_t>(between(1, 4)));
        for (std::int64_t& extent : shape) extent = between(1, 6);
        if (product(shape) <= view.span()) view = random_strided(view, shape, false);
        break;
      }
      default: {
        const std::int64_t begin = below(view.extent(dim));
        const std::int64_t end = between(begin + 1, view.extent(dim));
        view = view.slice(dim, begin, end, chance(50) ? 1 : between(1, 4));
        break;
      }
    }
  }
  return view;
}

HostLayout ProgramGenerator::target_view(std::size_t buffer) {
  const HostLayout view = random_view(buffer);
  return view.repeats_elements() ? whole(buffer) : view;
}

std::optional<HostLayout> ProgramGenerator::matching_view(std::size_t buffer,
                                                          const HostLayout& like) {
  HostLayout view = whole(buffer);
  if (view.element_count() < like.element_count()) return std::nullopt;
  if (view.dims() == like.dims() && chance(60)) {
    if (chance(30)) {
      view = view.transpose(static_cast<int>(below(view.dims())),
                            static_cast<int>(below(view.dims())));
    }
    bool fits = true;
    for (int dim = 0; dim < view.dims(); ++dim) fits = fits && view.extent(dim) >= like.extent(dim);
    if (fits) {
      for (int dim = 0; dim < view.dims(); ++dim) {
        const std::int64_t extent = like.extent(dim);
        if (extent == view.extent(dim)) continue;
        const std::int64_t widest = extent == 1 ? 3 : (view.extent(dim) - 1) / (extent - 1);
        const std::int64_t step = between(1, std::min<std::int64_t>(widest, 4));
        const std::int64_t span = (extent - 1) * step + 1;
        const std::int64_t begin = between(0, view.extent(dim) - span);
        view = view.slice(dim, begin, begin + span, step);
      }
      return view;
    }
    view = whole(buffer);
  }
  return random_strided(view, like.shape(), chance(15));
}

std::optional<HostLayout> ProgramGenerator::source_view(int rank, const HostLayout& like) {
  const BufferSpec& spec = scenario_.buffers[like.buffer()];
  for (int tries = 0; tries < 8; ++tries) {
    const std::size_t buffer = rank == spec.rank && chance(30) ? like.buffer() : buffer_on(rank);
    if (scenario_.buffers[buffer].dtype != spec.dtype) continue;
    const std::optional<HostLayout> view = matching_view(buffer, like);
    if (view && view->shape() == like.shape() && (careless_ || !share_bytes(*view, like)))
      return view;
  }
  return std::nullopt;
}

Given ProgramGenerator::random_given(const HostLayout& view) {
  const bool of_stack = scenario_.buffers[view.buffer()].stack != BufferSpec::kNoStack;
  if (of_stack && chance(50)) return chance(50) ? Given::by_stack_rank : Given::by_stack_index;
  if (chance(30)) return Given::by_program;
  return chance(60) ? Given::by_argument : Given::by_reference;
}

void ProgramGenerator::add_sources(ProgramTask& task, int rank, std::size_t count,
                                   const HostLayout& like) {
  for (; count > 0; --count) {
    const std::optional<HostLayout> view = source_view(rank, like);
    if (!view) continue;
    // What is both read and written must be apart from all others.
    const bool alone =
        !view->repeats_elements() && std::ranges::none_of(task.args, [&](const ProgramArg& arg) {
          return share_bytes(arg.view, *view);
        });
    task.args.push_back({*view, alone && chance(5) ? Tag::inout : Tag::in, random_given(*view)});
  }
}

ProgramTask ProgramGenerator::make_task(const Tasks& earlier) {
  ProgramTask task;
  task.rank = static_cast<int>(below(ranks_));
  if (chance(8)) {
    task.kind = Kind::yield;
    task.value = between(1, 30);
    return task;
  }
  const HostLayout to = target_view(buffer_on(task.rank));
  const std::int64_t kind = below(100);
  if (kind < 35) {
    const auto from =
        static_cast<int>(chance(85) ? (task.rank + between(1, ranks_ - 1)) % ranks_ : task.rank);
    task.kind = Kind::copy_between_ranks;
    add_sources(task, from, 1, to);
    if (!task.args.empty()) {
      task.args[0].tag = Tag::in;  // a copy takes these tags and no others
      task.args.insert(task.args.begin(), ProgramArg{to, Tag::out, random_given(to)});
    }
  } else if (kind < 55) {
    task.kind = Kind::copy;
    add_sources(task, task.rank, 1, to);
    if (!task.args.empty()) task.args.push_back({to, out_or_inout(), random_given(to)});
  } else if (kind < 80) {
    task.kind = Kind::sum;
    add_sources(task, task.rank, static_cast<std::size_t>(between(1, 4)), to);
    if (!task.args.empty()) task.args.push_back({to, out_or_inout(), random_given(to)});
  }
  if (task.args.empty()) {
    task.kind = Kind::fill;
    task.args.push_back({to, out_or_inout(), random_given(to)});
    task.value = below(100);
  }
  for (std::size_t i = 0; i < earlier.size(); ++i) {
    if (chance(5)) task.after.push_back(i);
  }
  return task;
}

ProgramGenerator::Tasks ProgramGenerator::make_tasks() {
  careless_ = chance(6);
  Tasks tasks;
  for (std::int64_t left = between(1, 12); left > 0; --left) tasks.push_back(make_task(tasks));
  careless_ = false;
  return tasks;
}

/// Lets `after` say what tags said, then lets the tags say nothing where that makes no difference.
void ProgramGenerator::leave_out_of_order(Tasks& tasks) {
  for (std::size_t later = 0; later < tasks.size(); ++later) {
    for (std::size_t earlier = 0; earlier < later; ++earlier) {
      if (tasks[earlier].rank == tasks[later].rank || !conflict(tasks[earlier], tasks[later]))
        continue;
      if (chance(70)) tasks[later].after.push_back(earlier);
    }
  }
  for (std::size_t at = 0; at < tasks.size(); ++at) {
    if (tasks[at].kind == Kind::copy_between_ranks) continue;
    for (ProgramArg& arg : tasks[at].args) {
      if (chance(40)) continue;
      const Tag tag = std::exchange(arg.tag, Tag::no_dep);
      if (!no_dep_is_safe(tasks, at, arg)) arg.tag = tag;
    }
  }
}

ProgramGenerator::Tasks ProgramGenerator::with_other_buffers(Tasks tasks) {
  const std::vector<BufferSpec>& specs = scenario_.buffers;
  std::vector<std::size_t> other(specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    std::vector<std::size_t> alike;
    for (std::size_t j = 0; j < specs.size(); ++j) {
      if (specs[j].rank == specs[i].rank && specs[j].dtype == specs[i].dtype &&
          specs[j].shape == specs[i].shape && specs[j].stack == specs[i].stack) {
        alike.push_back(j);
      }
    }
    other[i] = one_of(alike);
  }
  for (ProgramTask& task : tasks) {
    for (ProgramArg& arg : task.args) arg.view = arg.view.moved_to(other[arg.view.buffer()]);
  }
  return tasks;
}

ProgramGenerator::Tasks ProgramGenerator::with_other_offsets(Tasks tasks) {
  for (ProgramTask& task : tasks) {
    for (ProgramArg& arg : task.args) {
      const bool of_stack = arg.given == Given::by_stack_rank || arg.given == Given::by_stack_index;
      if (of_stack || chance(60)) continue;
      const HostLayout all = whole(arg.view.buffer());
      const std::int64_t room = all.span() - arg.view.span();
      arg.view = all.strided(arg.view.shape(), arg.view.strides(), between(0, room));
    }
  }
  return tasks;
}

ProgramGenerator::Tasks ProgramGenerator::varied(Tasks tasks) {
  const Tasks before = tasks;
  ProgramTask& task = tasks[static_cast<std::size_t>(below(std::ssize(tasks)))];
  switch (below(9)) {
    case 0:
      task.value = between(1, 30);
      break;
    case 1:
      if (tasks.size() > 1) tasks.pop_back();
      break;
    case 2:
      tasks.push_back(make_task(tasks));
      break;
    case 3:
      for (ProgramArg& arg : task.args) {
        if (arg.tag == Tag::out && task.kind != Kind::copy_between_ranks) arg.tag = Tag::inout;
      }
      break;
    case 4:
      task = make_task({});
      break;
    case 5:
      tasks = with_other_offsets(std::move(tasks));
      break;
    default:
      tasks = with_other_buffers(std::move(tasks));
      break;
  }
  if (has_no_dep(tasks) && !no_dep_is_safe(tasks)) return before;
  return tasks;
}

void ProgramGenerator::add_submit(std::size_t program, const Tasks& tasks) {
  scenario_.steps.push_back({.kind = HostStep::Kind::submit, .program = program, .tasks = tasks});
  ++in_flight_;
  if (is_refused(tasks)) return;
  for (const ProgramTask& task : tasks) serial_->run(task);
}

void ProgramGenerator::renew(std::size_t buffer) {
  HostStep step{.kind = HostStep::Kind::renew, .buffer = buffer, .pattern = random_() % 100'000};
  for (const std::size_t each : renewed_with(scenario_.buffers, buffer))
    serial_->upload(whole(each), renewed_bytes(scenario_.buffers, each, step.pattern));
  scenario_.steps.push_back(std::move(step));
}

void ProgramGenerator::add_something_between() {
  const auto buffer = static_cast<std::size_t>(below(std::ssize(scenario_.buffers)));
  switch (below(6)) {
    case 0:
    case 1: {
      const HostLayout view = target_view(buffer);
      const std::uint64_t pattern = random_() % 100'000;
      const DType dtype = scenario_.buffers[buffer].dtype;
      serial_->upload(view, pattern_bytes(dtype, view.element_count(), pattern));
      scenario_.steps.push_back(
          {.kind = HostStep::Kind::upload, .views = {view}, .pattern = pattern});
      break;
    }
    case 2:
    case 3:
      scenario_.steps.push_back({.kind = HostStep::Kind::download, .views = {random_view(buffer)}});
      break;
    case 4:
      scenario_.steps.push_back({.kind = HostStep::Kind::look, .views = {random_view(buffer)}});
      break;
    default:
      renew(buffer);
      break;
  }
}

/// One program, submitted once or again and again.
void ProgramGenerator::add_programs() {
  const std::size_t program = scenario_.programs++;
  Tasks tasks = make_tasks();
  const bool alone = chance(20) && !is_refused(tasks);
  if (alone) leave_out_of_order(tasks);
  for (std::int64_t left = chance(30) ? between(2, 5) : 1; left > 0; --left) {
    if (alone) add_wait();
    add_submit(program, tasks);
    if (alone) add_wait();
    if (chance(30)) add_something_between();
    if (chance(60)) tasks = varied(tasks);
  }
  // Sums stay exact.
  for (std::size_t i = 0; i < scenario_.buffers.size(); ++i) {
    if (serial_->has_large_numbers(i)) renew(i);
  }
  if (in_flight_ >= between(2, 5)) {
    in_flight_ = 0;
    if (chance(70)) {
      scenario_.steps.push_back({.kind = HostStep::Kind::compare});
    } else {
      add_wait();
    }
  }
}

}  // namespace rankcast::test
