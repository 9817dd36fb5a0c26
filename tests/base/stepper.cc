#include "base/stepper.h"

#include <fmt/format.h>

#include <bit>
#include <cstdio>
#include <cstdlib>

#include "base/futex.h"

namespace rankcast::base::stepping {
namespace {

thread_local Stepper* current_stepper = nullptr;

[[noreturn]] void misuse(const char* what) {
  std::fprintf(stderr, "stepper: %s\n", what);
  std::abort();
}

const char* name_of(OpKind kind) {
  static constexpr std::array<const char*, 11> kNames = {
      "load", "store",      "add",        "or",  "and", "exchange", "compare-exchange",
      "lock", "futex-wait", "futex-wake", "poll"};
  return kNames[static_cast<std::size_t>(kind)];
}

bool reads_and_writes(OpKind kind) {
  return kind >= OpKind::add && kind <= OpKind::compare_exchange;
}

bool acquires(const Op& op) {
  if (op.kind == OpKind::lock) return true;
  return op.order != Order::relaxed && (op.kind == OpKind::load || reads_and_writes(op.kind));
}

}  // namespace

Stepper::Stepper() {
  if (current_stepper != nullptr) misuse("two at once");
  current_stepper = this;
  start_ = State{};
}

Stepper::~Stepper() { current_stepper = nullptr; }

Stepper& Stepper::current() {
  if (current_stepper == nullptr) misuse("none alive");
  return *current_stepper;
}

std::uint16_t Stepper::add_cell(std::uint64_t value, int bits) {
  if (in_thread_) misuse("a stepped thread must not make atomics");
  if (masks_.size() == kMaxCells) misuse("too many atomics");
  const auto cell = static_cast<std::uint16_t>(masks_.size());
  masks_.push_back(bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1);
  start_.memory[cell] = value;
  return cell;
}

std::uint64_t Stepper::perform(const Op& op) {
  if (!in_thread_) {  // setting up, or the final check: at once
    State& state = running_state_ != nullptr ? *running_state_ : start_;
    const std::uint64_t old = state.memory[op.cell];
    if (op.kind != OpKind::load) state.memory[op.cell] = changed(op, old);
    return old;
  }
  Thread& thread = running_state_->threads[running_];
  if (position_ < thread.read_size) return thread.read[position_++];
  thread.next = op;
  std::longjmp(out_, 1);
}

void Stepper::require(bool condition, const char* message) {
  if (condition) return;
  Stepper& stepper = current();
  if (!stepper.in_thread_) misuse("require() outside a thread");
  stepper.broken_ = message;
  std::longjmp(stepper.out_, 2);
}

// Runs the thread's function over what it has read, up to the next step, its end or a failed
// require().
void Stepper::run_thread(State& state, std::size_t index) {
  running_state_ = &state;
  running_ = index;
  position_ = 0;
  in_thread_ = true;
  switch (setjmp(out_)) {
    case 0:
      running_state_->threads[running_].result = bodies_[running_]();
      running_state_->threads[running_].stand = Stand::finished;
      break;
    case 1:
      running_state_->threads[running_].stand = Stand::ready;
      break;
    default:
      running_state_->threads[running_].stand = Stand::failed;
      break;
  }
  in_thread_ = false;
  running_state_ = nullptr;
}

bool Stepper::held_by_other(const State& state, std::size_t index, std::uint16_t cell) const {
  for (std::size_t t = 0; t < bodies_.size(); ++t) {
    if (t == index) continue;
    const Thread& other = state.threads[t];
    for (std::size_t i = 0; i < other.buffer_size; ++i) {
      if (other.buffer[i].holds_cell && other.buffer[i].cell == cell) return true;
    }
  }
  return false;
}

bool Stepper::can_empty(const State& state, std::size_t index) const {
  const Thread& thread = state.threads[index];
  for (std::size_t i = 0; i < thread.buffer_size; ++i) {
    if (held_by_other(state, index, thread.buffer[i].cell)) return false;
  }
  return true;
}

void Stepper::empty_buffer(State& state, std::size_t index) const {
  Thread& thread = state.threads[index];
  for (std::size_t i = 0; i < thread.buffer_size; ++i) {
    write(state, index, thread.buffer[i].cell, thread.buffer[i].value);
  }
  thread.buffer_size = 0;
}

// Puts a value into memory; the other threads may go on seeing the old one for a while.
void Stepper::write(State& state, std::size_t index, std::uint16_t cell,
                    std::uint64_t value) const {
  if (may_be_stale_[cell]) {
    for (std::size_t t = 0; t < bodies_.size(); ++t) {
      Thread& other = state.threads[t];
      if (t == index || other.stand == Stand::finished) continue;
      if (other.stale_size == kMaxStale) misuse("more stale values than kMaxStale");
      other.stale[other.stale_size++] = Stale{state.memory[cell], cell};
    }
    forget_stale(state.threads[index], cell, 0);
  }
  state.memory[cell] = value;
}

// Keeps the newest `keep` older values of the cell.
void Stepper::forget_stale(Thread& thread, std::uint16_t cell, std::size_t keep) {
  std::size_t of_cell = 0;
  for (std::size_t i = 0; i < thread.stale_size; ++i) of_cell += thread.stale[i].cell == cell;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < thread.stale_size; ++i) {
    if (thread.stale[i].cell == cell && of_cell-- > keep) continue;
    thread.stale[kept++] = thread.stale[i];
  }
  thread.stale_size = kept;
}

// How many older values the thread's next step, if a relaxed load, may give instead of the newest.
std::size_t Stepper::stale_choices(const State& state, std::size_t index) const {
  const Thread& thread = state.threads[index];
  if (thread.next.kind != OpKind::load || thread.next.order != Order::relaxed) return 0;
  for (std::size_t i = 0; i < thread.buffer_size; ++i) {
    if (thread.buffer[i].cell == thread.next.cell) return 0;
  }
  std::size_t choices = 0;
  for (std::size_t i = 0; i < thread.stale_size; ++i) {
    choices += thread.stale[i].cell == thread.next.cell;
  }
  return choices;
}

// Choice 0 is the newest value, n the n-th older one.
std::uint64_t Stepper::load(State& state, std::size_t index, const Op& op,
                            std::size_t choice) const {
  Thread& thread = state.threads[index];
  std::uint64_t value = seen(state, index, op.cell);
  std::size_t older = 0;
  for (std::size_t i = thread.stale_size; i-- > 0 && older < choice;) {
    if (thread.stale[i].cell != op.cell) continue;
    value = thread.stale[i].value;
    ++older;
  }
  forget_stale(thread, op.cell, choice);
  return value;
}

bool Stepper::can_drain(const State& state, std::size_t index, std::size_t entry) const {
  const Thread& thread = state.threads[index];
  const Entry& leaving = thread.buffer[entry];
  if (leaving.release && entry != 0) return false;
  for (std::size_t i = 0; i < entry; ++i) {
    if (thread.buffer[i].cell == leaving.cell) return false;
  }
  return !held_by_other(state, index, leaving.cell);
}

void Stepper::drain(State& state, std::size_t index, std::size_t entry) const {
  Thread& thread = state.threads[index];
  write(state, index, thread.buffer[entry].cell, thread.buffer[entry].value);
  for (std::size_t i = entry + 1; i < thread.buffer_size; ++i) {
    thread.buffer[i - 1] = thread.buffer[i];
  }
  --thread.buffer_size;
}

std::uint64_t Stepper::seen(const State& state, std::size_t index, std::uint16_t cell) const {
  const Thread& thread = state.threads[index];
  for (std::size_t i = thread.buffer_size; i-- > 0;) {
    if (thread.buffer[i].cell == cell) return thread.buffer[i].value;
  }
  return state.memory[cell];
}

std::uint64_t Stepper::changed(const Op& op, std::uint64_t old) const {
  switch (op.kind) {
    case OpKind::add:
      return (old + op.value) & masks_[op.cell];
    case OpKind::bit_or:
      return old | op.value;
    case OpKind::bit_and:
      return old & op.value;
    case OpKind::compare_exchange:
      return old == op.expected ? op.value : old;
    default:
      return op.value;
  }
}

bool Stepper::can_step(const State& state, std::size_t index) const {
  const Thread& thread = state.threads[index];
  if (thread.stand != Stand::ready) return false;
  const Op& op = thread.next;
  switch (op.kind) {
    case OpKind::load:
      return true;
    case OpKind::lock:
      return state.memory[op.cell] == 0 && !held_by_other(state, index, op.cell);
    case OpKind::poll_nonzero:
      return seen(state, index, op.cell) != 0;
    case OpKind::futex_wait:
    case OpKind::futex_wake:
      return true;
    default:
      break;
  }
  if (op.order == Order::seq_cst) {
    return can_empty(state, index) && !held_by_other(state, index, op.cell);
  }
  if (thread.buffer_size == kMaxBuffer) return false;
  return op.kind == OpKind::store || !held_by_other(state, index, op.cell);
}

void Stepper::give(State& state, std::size_t index, std::uint64_t value) const {
  Thread& thread = state.threads[index];
  if (thread.read_size == kMaxSteps) misuse("a thread took more steps than kMaxSteps");
  thread.read[thread.read_size++] = value;
}

void Stepper::wake(State& state, const Op& op, std::uint64_t& woken) {
  for (std::size_t t = 0; t < bodies_.size(); ++t) {
    Thread& sleeper = state.threads[t];
    if (sleeper.stand != Stand::asleep || sleeper.next.cell != op.cell) continue;
    if ((sleeper.next.value & op.value) == 0) continue;
    ++woken;
    give(state, t, static_cast<std::uint64_t>(FutexResult::woken));
    run_thread(state, t);
  }
}

void Stepper::step(State& state, std::size_t index, std::size_t choice) {
  Thread& thread = state.threads[index];
  const Op op = thread.next;
  std::uint64_t answer = 0;
  if (op.kind == OpKind::load) {
    answer = load(state, index, op, choice);
  } else if (op.kind == OpKind::lock) {
    write(state, index, op.cell, 1);
  } else if (op.kind == OpKind::futex_wake) {
    wake(state, op, answer);
  } else if (op.kind == OpKind::futex_wait) {
    if (seen(state, index, op.cell) == op.expected) {
      thread.stand = Stand::asleep;
      return;
    }
    answer = static_cast<std::uint64_t>(FutexResult::changed);
  } else if (op.kind == OpKind::poll_nonzero) {
    answer = seen(state, index, op.cell);
  } else if (op.order == Order::seq_cst) {
    empty_buffer(state, index);
    answer = state.memory[op.cell];
    write(state, index, op.cell, changed(op, answer));
  } else {
    answer = seen(state, index, op.cell);
    const bool both = reads_and_writes(op.kind);
    const std::uint64_t value = changed(op, answer);
    if (op.kind != OpKind::compare_exchange || answer == op.expected) {
      thread.buffer[thread.buffer_size++] = Entry{value, op.cell, op.order != Order::relaxed, both};
    }
  }
  if (acquires(op)) thread.stale_size = 0;
  give(state, index, answer);
  run_thread(state, index);
}

Stepper::Hash Stepper::hash_of(const State& state) const {
  Hash hash{0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu};
  const auto mix = [&hash](std::uint64_t value) {
    hash.a = (std::rotl(hash.a, 27) ^ value) * 0x9fb21c651e98df25u;
    hash.b = (std::rotl(hash.b, 31) + value) * 0xd6e8feb86659fd93u;
    hash.b ^= hash.a >> 29;
  };
  for (std::size_t i = 0; i < masks_.size(); ++i) mix(state.memory[i]);
  for (std::size_t t = 0; t < bodies_.size(); ++t) {
    const Thread& thread = state.threads[t];
    mix(thread.read_size << 24 | thread.stale_size << 16 | thread.buffer_size << 8 |
        static_cast<std::size_t>(thread.stand));
    for (std::size_t i = 0; i < thread.read_size; ++i) mix(thread.read[i]);
    for (std::size_t i = 0; i < thread.stale_size; ++i) {
      mix(thread.stale[i].value);
      mix(thread.stale[i].cell);
    }
    for (std::size_t i = 0; i < thread.buffer_size; ++i) {
      const Entry& entry = thread.buffer[i];
      mix(entry.value);
      mix(std::uint64_t{entry.cell} << 2 | std::uint64_t{entry.release} << 1 |
          std::uint64_t{entry.holds_cell});
    }
  }
  return hash;
}

std::string Stepper::text_of(const Taken& taken) {
  switch (taken.what) {
    case Taken::What::slept:
      return fmt::format("thread {}: sleeps on cell {}", taken.thread, taken.cell);
    case Taken::What::timed_out:
      return fmt::format("thread {}: times out", taken.thread);
    case Taken::What::drained:
      return fmt::format("thread {}: cell {} = {} reaches memory", taken.thread, taken.cell,
                         taken.value);
    default:
      return fmt::format("thread {}: {} cell {}, {} -> {}", taken.thread, name_of(taken.kind),
                         taken.cell, taken.value, taken.answer);
  }
}

void Stepper::fail(const std::string& what) {
  found_.failure = fmt::format("{}; schedule:", what);
  for (const Taken& taken : path_) found_.failure += fmt::format("\n  {}", text_of(taken));
}

double Stepper::end_of_schedule(const State& state) {
  bool all_finished = true;
  for (std::size_t t = 0; t < bodies_.size(); ++t) {
    const Thread& thread = state.threads[t];
    // Two threads hold cells against each other: no machine gets here, so the schedule does not
    // count.
    if (thread.buffer_size != 0) return 0;
    all_finished = all_finished && thread.stand == Stand::finished;
  }
  if (!all_finished) {
    std::string what = "for ever waiting:";
    for (std::size_t t = 0; t < bodies_.size(); ++t) {
      const Thread& thread = state.threads[t];
      if (thread.stand == Stand::finished) continue;
      what += fmt::format(" thread {} in {}", t, name_of(thread.next.kind));
    }
    fail(what);
    return 1;
  }
  if (check_) {
    Results results{};
    for (std::size_t t = 0; t < bodies_.size(); ++t) results[t] = state.threads[t].result;
    State last = state;
    running_state_ = &last;
    const bool good = check_(results);
    running_state_ = nullptr;
    if (!good) {
      std::string what = "the final check failed, results:";
      for (std::size_t t = 0; t < bodies_.size(); ++t) what += fmt::format(" {}", results[t]);
      fail(what);
    }
  }
  return 1;
}

double Stepper::visit(const State& state) {
  for (std::size_t t = 0; t < bodies_.size(); ++t) {
    if (state.threads[t].stand == Stand::failed) {
      fail(broken_);
      return 1;
    }
  }
  const Hash hash = hash_of(state);
  if (const auto known = visited_.find(hash); known != visited_.end()) return known->second;
  double schedules = 0;
  bool moved = false;
  const auto go_on = [&](const State& child, Taken taken) {
    moved = true;
    path_.push_back(taken);
    schedules += visit(child);
    path_.pop_back();
  };
  for (std::size_t t = 0; t < bodies_.size() && found_.good(); ++t) {
    const Thread& thread = state.threads[t];
    const Op& op = thread.next;
    const std::size_t choices = can_step(state, t) ? 1 + stale_choices(state, t) : 0;
    for (std::size_t choice = 0; choice < choices && found_.good(); ++choice) {
      State child = state;
      step(child, t, choice);
      const bool sleeps = child.threads[t].stand == Stand::asleep;
      go_on(child, {sleeps ? Taken::What::slept : Taken::What::stepped, op.kind, op.cell, t,
                    op.value, sleeps ? 0 : child.threads[t].read[thread.read_size]});
    }
    if (thread.stand == Stand::asleep && op.can_time_out && found_.good()) {
      State child = state;
      give(child, t, static_cast<std::uint64_t>(FutexResult::timed_out));
      run_thread(child, t);
      go_on(child, {Taken::What::timed_out, op.kind, op.cell, t, 0, 0});
    }
    for (std::size_t i = 0; i < thread.buffer_size && found_.good(); ++i) {
      if (!can_drain(state, t, i)) continue;
      State child = state;
      drain(child, t, i);
      const Entry& entry = thread.buffer[i];
      go_on(child, {Taken::What::drained, OpKind::store, entry.cell, t, entry.value, 0});
    }
  }
  if (!moved) schedules = end_of_schedule(state);
  visited_.emplace(hash, schedules);
  return schedules;
}

Exploration Stepper::explore() {
  found_ = {};
  visited_.clear();
  path_.clear();
  State state = start_;
  for (std::size_t t = 0; t < bodies_.size(); ++t) run_thread(state, t);
  found_.schedules = visit(state);
  found_.states = visited_.size();
  return found_;
}

}  // namespace rankcast::base::stepping
