#include "mesh/scenario_player.h"

#include <algorithm>
#include <chrono>

namespace rankcast::test {
namespace {

/// Memory that is aligned for every dtype.
class HostMemory {
 public:
  explicit HostMemory(const Bytes& bytes) : words_((bytes.size() + 7) / 8) {
    std::copy(bytes.begin(), bytes.end(), data());
  }
  std::byte* data() { return reinterpret_cast<std::byte*>(words_.data()); }

 private:
  std::vector<std::uint64_t> words_;
};

std::string hex(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4U];
    text += kDigits[std::to_integer<unsigned>(byte) & 15U];
  }
  return text;
}

}  // namespace

ScenarioPlayer::~ScenarioPlayer() {
  for (const rankcast::Run& run : runs_) {
    try {
      run.wait();
    } catch (const Error&) {
      // ignored: the scenario has failed, and that was told
    }
  }
  try {
    for (std::size_t i = 0; i < places_.size(); ++i) free(i);
  } catch (const Error&) {
    // ignored: the test looks for what is left
  }
}

std::optional<std::string> ScenarioPlayer::play() {
  for (std::size_t at = 0; at < scenario_.steps.size() && !failure_; ++at) {
    try {
      play(scenario_.steps[at]);
    } catch (const std::exception& error) {
      fail(std::string("threw: ") + error.what());
    }
    if (failure_) *failure_ = "step " + std::to_string(at) + ": " + *failure_;
  }
  return failure_;
}

void ScenarioPlayer::play(const HostStep& step) {
  switch (step.kind) {
    case HostStep::Kind::submit:
      submit(step);
      break;
    case HostStep::Kind::upload:
      upload(step);
      break;
    case HostStep::Kind::download:
      download(step.views[0]);
      break;
    case HostStep::Kind::look:
      look(step.views[0]);
      break;
    case HostStep::Kind::renew:
      renew(step);
      break;
    case HostStep::Kind::wait:
      wait();
      break;
    case HostStep::Kind::compare:
      for (std::size_t i = 0; i < places_.size(); ++i) {
        if (!places_[i].tensor.empty()) download(HostLayout(i, scenario_.buffers[i]));
      }
      wait();
      break;
  }
}

void ScenarioPlayer::submit(const HostStep& step) {
  const bool refuse = std::ranges::any_of(step.tasks, must_be_refused);
  current_ = &step;
  bound_ = bind(step.tasks);
  ++submitted_;
  try {
    runs_.push_back(mesh_.submit(program(step.program), bound_.arguments));
  } catch (const Error& error) {
    const bool as_it_should =
        refuse && error.code() == ErrorCode::invalid_argument &&
        std::string_view(error.what()).find("shares bytes with") != std::string_view::npos;
    if (!as_it_should) fail(std::string("refused: ") + error.what());
    ++refused_;
    return;
  }
  if (refuse) fail("accepted, but two arguments of a task share bytes that one of them writes");
  for (const ProgramTask& task : step.tasks) serial_.run(task);
}

ScenarioPlayer::Bound ScenarioPlayer::bind(const std::vector<ProgramTask>& tasks) const {
  Bound bound;
  std::map<int, std::size_t> stacks;  // number of the argument that is the stack
  for (const ProgramTask& task : tasks) {
    std::vector<std::size_t> numbers;
    for (const ProgramArg& arg : task.args) {
      const Place& place = places_[arg.view.buffer()];
      std::size_t number = bound.arguments.size();
      if (arg.given == Given::by_argument) {
        bound.arguments.emplace_back(arg.view.of(place.tensor));
      } else if (arg.given == Given::by_reference) {
        bound.arguments.emplace_back(place.tensor);
      } else if (arg.given != Given::by_program) {
        const auto [known, is_new] =
            stacks.try_emplace(scenario_.buffers[arg.view.buffer()].stack, number);
        if (is_new) bound.arguments.emplace_back(place.stack);
        number = known->second;
      }
      numbers.push_back(number);
    }
    bound.numbers.push_back(std::move(numbers));
  }
  return bound;
}

Program& ScenarioPlayer::program(std::size_t number) {
  const auto known = programs_.find(number);
  if (known != programs_.end()) return known->second;
  return programs_
      .try_emplace(number, "program_" + std::to_string(number),
                   [this](Orchestrator& orch, const Arguments& args) { orchestrate(orch, args); })
      .first->second;
}

void ScenarioPlayer::orchestrate(Orchestrator& orch, const Arguments& args) const {
  std::vector<Task> earlier;
  Doubles doubles;
  for (std::size_t i = 0; i < current_->tasks.size(); ++i) {
    const ProgramTask& task = current_->tasks[i];
    for (const ProgramArg& arg : task.args) begin_double(orch, arg.view.buffer(), &doubles);
    const TaskArgs given = task_args(task, bound_.numbers[i], args, earlier, doubles);
    switch (task.kind) {
      case ProgramTask::Kind::fill:
        earlier.push_back(orch.submit("rankcast.fill", task.rank, given));
        break;
      case ProgramTask::Kind::copy:
        earlier.push_back(orch.submit("rankcast.copy", task.rank, given));
        break;
      case ProgramTask::Kind::sum:
        earlier.push_back(orch.submit("rankcast.sum", task.rank, given));
        break;
      case ProgramTask::Kind::copy_between_ranks:
        earlier.push_back(orch.copy(given));
        break;
      case ProgramTask::Kind::yield:
        earlier.push_back(orch.submit("probe.yields", task.rank, given));
        break;
    }
    for (const ProgramArg& arg : task.args) end_double(orch, arg.view.buffer(), i, &doubles);
  }
}

// Of some buffers a temporary stands in: it gets the buffer's contents before the first task that
// names it, and gives them back after the last.
void ScenarioPlayer::begin_double(Orchestrator& orch, std::size_t buffer, Doubles* doubles) const {
  if ((current_->program * 7 + buffer * 13) % 5 >= 2 || doubles->contains(buffer)) return;
  const BufferSpec& spec = scenario_.buffers[buffer];
  const ArgumentRef temporary = orch.temp(spec.rank, Shape(spec.shape), spec.dtype);
  orch.copy(temporary, places_[buffer].tensor);
  doubles->emplace(buffer, temporary);
}

void ScenarioPlayer::end_double(Orchestrator& orch, std::size_t buffer, std::size_t task,
                                Doubles* doubles) const {
  const auto known = doubles->find(buffer);
  if (known == doubles->end()) return;
  for (const ProgramTask& later : std::span(current_->tasks).subspan(task + 1)) {
    for (const ProgramArg& arg : later.args) {
      if (arg.view.buffer() == buffer) return;
    }
  }
  orch.copy(places_[buffer].tensor, known->second);
  doubles->erase(known);
}

TaskArgs ScenarioPlayer::task_args(const ProgramTask& task, const std::vector<std::size_t>& numbers,
                                   const Arguments& args, const std::vector<Task>& earlier,
                                   const Doubles& doubles) const {
  TaskArgs given;
  const auto add = [&](const auto& tensor, Tag tag) {
    switch (tag) {
      case Tag::in:
        given.in(tensor);
        break;
      case Tag::out:
        given.out(tensor);
        break;
      case Tag::inout:
        given.inout(tensor);
        break;
      case Tag::no_dep:
        given.no_dep(tensor);
        break;
    }
  };
  for (std::size_t i = 0; i < task.args.size(); ++i) {
    const ProgramArg& arg = task.args[i];
    const Place& place = places_[arg.view.buffer()];
    if (const auto known = doubles.find(arg.view.buffer()); known != doubles.end()) {
      add(arg.view.of(known->second), arg.tag);
      continue;
    }
    switch (arg.given) {
      case Given::by_program:
        add(arg.view.of(place.tensor), arg.tag);
        break;
      case Given::by_argument:
        add(args[numbers[i]], arg.tag);
        break;
      case Given::by_reference:
        add(arg.view.of(args[numbers[i]]), arg.tag);
        break;
      case Given::by_stack_rank:
        add(arg.view.of(args[numbers[i]].shard_on(place.tensor.rank())), arg.tag);
        break;
      case Given::by_stack_index:
        add(arg.view.of(args[numbers[i]][place.shard]), arg.tag);
        break;
    }
  }
  if (task.kind == ProgramTask::Kind::fill || task.kind == ProgramTask::Kind::yield)
    given.scalar(task.value);
  for (const std::size_t index : task.after) given.after(earlier[index]);
  return given;
}

void ScenarioPlayer::upload(const HostStep& step) {
  const HostLayout& view = step.views[0];
  const DType dtype = scenario_.buffers[view.buffer()].dtype;
  const Bytes bytes = pattern_bytes(dtype, view.element_count(), step.pattern);
  HostMemory memory(bytes);
  mesh_.upload(view.of(places_[view.buffer()].tensor),
               HostView(memory.data(), dtype, Shape(view.shape())));
  serial_.upload(view, bytes);
}

void ScenarioPlayer::download(const HostLayout& view) {
  const Bytes wanted = serial_.download(view);
  const DType dtype = scenario_.buffers[view.buffer()].dtype;
  HostMemory memory(Bytes(wanted.size(), std::byte{0xEE}));
  mesh_.download(view.of(places_[view.buffer()].tensor),
                 MutableHostView(memory.data(), dtype, Shape(view.shape())));
  compare(view, {memory.data(), wanted.size()}, wanted);
}

void ScenarioPlayer::look(const HostLayout& view) {
  const std::size_t size = size_bytes(scenario_.buffers[view.buffer()].dtype);
  looks_.push_back(mesh_.view(view.of(places_[view.buffer()].tensor)));
  const ResidentView& shown = looks_.back();
  const auto* first = static_cast<const std::byte*>(shown.data());
  Bytes found;
  std::vector<std::int64_t> places{0};
  for (int dim = 0; dim < view.dims(); ++dim) {
    std::vector<std::int64_t> next;
    for (const std::int64_t place : places) {
      for (std::int64_t i = 0; i < view.extent(dim); ++i)
        next.push_back(place + i * shown.strides()[static_cast<std::size_t>(dim)]);
    }
    places = std::move(next);
  }
  for (const std::int64_t place : places) {
    const std::byte* element = first + static_cast<std::size_t>(place) * size;
    found.insert(found.end(), element, element + size);
  }
  compare(view, found, serial_.download(view));
}

void ScenarioPlayer::compare(const HostLayout& view, std::span<const std::byte> found,
                             std::span<const std::byte> wanted) {
  const std::size_t size = size_bytes(scenario_.buffers[view.buffer()].dtype);
  for (std::size_t at = 0; at < wanted.size(); at += size) {
    if (std::ranges::equal(found.subspan(at, size), wanted.subspan(at, size))) continue;
    fail("element " + std::to_string(at / size) + " of " + view.text() + " is " +
         hex(found.subspan(at, size)) + ", wanted " + hex(wanted.subspan(at, size)) +
         " (bytes in order)");
    return;
  }
}

void ScenarioPlayer::free(std::size_t buffer) {
  Place& place = places_[buffer];
  if (place.tensor.empty()) return;
  if (place.stack.empty()) {
    mesh_.free(place.tensor);
  } else {
    mesh_.free(place.stack);
  }
}

void ScenarioPlayer::renew(const HostStep& step) {
  const std::vector<BufferSpec>& specs = scenario_.buffers;
  const std::vector<std::size_t> buffers = renewed_with(specs, step.buffer);
  const BufferSpec& spec = specs[step.buffer];
  Bytes all;
  std::vector<int> ranks;
  for (const std::size_t buffer : buffers) {
    const Bytes bytes = renewed_bytes(specs, buffer, step.pattern);
    serial_.upload(HostLayout(buffer, specs[buffer]), bytes);
    all.insert(all.end(), bytes.begin(), bytes.end());
    ranks.push_back(specs[buffer].rank);
  }
  HostMemory memory(all);
  const bool filled_at_once = step.pattern % 2 == 0;
  const bool freed_first = step.pattern % 4 < 2;
  if (freed_first) free(step.buffer);
  if (spec.stack == BufferSpec::kNoStack) {
    const HostView view(memory.data(), spec.dtype, Shape(spec.shape));
    const DeviceTensor tensor = filled_at_once ? mesh_.alloc(spec.rank, view)
                                               : mesh_.alloc(spec.rank, view.shape(), spec.dtype);
    if (!filled_at_once) mesh_.upload(tensor, view);
    if (!freed_first) free(step.buffer);
    places_[step.buffer] = {.tensor = tensor};
    return;
  }
  const Shape shape = Shape(spec.shape).prepended(std::ssize(buffers));
  const HostView view(memory.data(), spec.dtype, shape);
  const StackedDeviceTensor stack = filled_at_once ? mesh_.alloc_stacked(view, ranks)
                                                   : mesh_.alloc_stacked(shape, spec.dtype, ranks);
  if (!filled_at_once) mesh_.upload(stack, view);
  if (!freed_first) free(step.buffer);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const int shard = static_cast<int>(i);
    places_[buffers[i]] = {.tensor = stack[shard], .stack = stack, .shard = shard};
  }
}

void ScenarioPlayer::wait() {
  for (const rankcast::Run& run : runs_) run.wait();
  runs_.clear();
}

void ScenarioPlayer::fail(const std::string& what) {
  if (!failure_) failure_ = what;
}

}  // namespace rankcast::test
