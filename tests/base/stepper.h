// Steps every interleaving of a few threads over a model of weak memory.
//
// A thread is a function. Every operation on a SteppedAtomic (stepping_atomic.h) is one step. The
// memory model:
//   - Each thread has a store buffer. A store weaker than seq_cst enters it and reaches memory at
//   any later step, so
//     that later loads of the same thread pass it; the thread itself sees its own buffered stores.
//   - Release entries leave the buffer after everything before them; relaxed ones pass entries of
//   other cells.
//   - A read-modify-write weaker than seq_cst reads at once and writes through the buffer, holding
//   its cell against
//     other writers meanwhile: what load-exclusive and store-exclusive do.
//   - A seq_cst store or read-modify-write first empties the buffer. System calls do not, although
//   Linux's would: the
//     proofs do not count on the kernel's barriers.
//   - A relaxed load of a cell marked for it may also give any value that was in memory since this
//   thread's last load
//     or read-modify-write of acquire or stronger, but none older than what it saw of that cell.
//     All other loads give what is in memory.
//
// Exploration is exhaustive. A state is: memory, buffers, and what each thread has read so far,
// which fixes where it stands. A thread is moved on by running its function again over the values
// it has read before, so the function must depend on nothing but those, keep what it writes in
// locals, and hold no object with a destructor across a step. States reached twice are explored
// once (compared by a 128-bit hash), and the schedules through them are counted.
#pragma once

#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

namespace rankcast::base::stepping {

inline constexpr std::size_t kMaxThreads = 4;
inline constexpr std::size_t kMaxCells = 64;
inline constexpr std::size_t kMaxSteps = 96;  // of one thread
inline constexpr std::size_t kMaxBuffer = 12;
inline constexpr std::size_t kMaxStale = 16;

enum class Order : std::uint8_t { relaxed, acq_rel, seq_cst };

enum class OpKind : std::uint8_t {
  load,
  store,
  add,
  bit_or,
  bit_and,
  exchange,
  compare_exchange,
  lock,          // waits for 0 in memory and makes it 1; earlier stores may stay buffered
  futex_wait,    // sleeps if memory holds `expected`
  futex_wake,    // wakes sleepers whose bits meet `value`
  poll_nonzero,  // waits until memory is not 0
};

struct Op {
  OpKind kind = OpKind::load;
  Order order = Order::seq_cst;
  bool can_time_out = false;
  std::uint16_t cell = 0;
  std::uint64_t value = 0;
  std::uint64_t expected = 0;
};

/// What explore() found.
struct Exploration {
  std::uint64_t states = 0;
  double schedules =
      0;  ///< Complete interleavings covered; a count too large for an integer is rounded.
  std::string failure;  ///< Empty: every schedule ended well. Else what went wrong, and the
                        ///< schedule that led there.

  bool good() const { return failure.empty(); }
};

class Stepper {
 public:
  using Body = std::function<std::uint64_t()>;
  using Results = std::array<std::uint64_t, kMaxThreads>;

  Stepper();
  ~Stepper();
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;

  /// The Stepper alive in this (real) thread; there must be one.
  static Stepper& current();

  /// A thread to step; its result is given to the final check.
  void add_thread(Body body) { bodies_.push_back(std::move(body)); }

  /// Called at the end of each schedule with the threads' results; may read atomics; false is a
  /// failure.
  void set_final_check(std::function<bool(const Results&)> check) { check_ = std::move(check); }

  /// All schedules, or the first that fails: a thread that sleeps for ever, a failed require(), a
  /// final check.
  Exploration explore();

  /// In a thread: ends the exploration with this message unless `condition`.
  static void require(bool condition, const char* message);

  // For the atomics.
  std::uint16_t add_cell(std::uint64_t value, int bits);
  void mark_for_stale_loads(std::uint16_t cell) { may_be_stale_[cell] = true; }
  std::uint64_t perform(const Op& op);

 private:
  struct Entry {
    std::uint64_t value;
    std::uint16_t cell;
    bool release;
    bool holds_cell;
  };
  struct Stale {
    std::uint64_t value;
    std::uint16_t cell;
  };
  enum class Stand : std::uint8_t { ready, asleep, finished, failed };
  struct Thread {
    std::array<std::uint64_t, kMaxSteps> read;
    std::array<Entry, kMaxBuffer> buffer;
    std::size_t read_size = 0;
    std::array<Stale, kMaxStale> stale;  // older values that it may still load, oldest first
    std::size_t buffer_size = 0;
    std::size_t stale_size = 0;
    Stand stand = Stand::ready;
    Op next;
    std::uint64_t result = 0;
  };
  struct State {
    std::array<std::uint64_t, kMaxCells> memory;
    std::array<Thread, kMaxThreads> threads;
  };
  struct Hash {
    std::uint64_t a;
    std::uint64_t b;
    friend bool operator==(const Hash&, const Hash&) = default;
  };
  // One step of the path to where the exploration stands, for a failure's text.
  struct Taken {
    enum class What : std::uint8_t { stepped, slept, timed_out, drained };
    What what;
    OpKind kind;
    std::uint16_t cell;
    std::size_t thread;
    std::uint64_t value;
    std::uint64_t answer;
  };
  struct HashOfHash {
    std::size_t operator()(const Hash& hash) const { return hash.a; }
  };

  double visit(const State& state);
  double end_of_schedule(const State& state);
  void run_thread(State& state, std::size_t index);
  bool held_by_other(const State& state, std::size_t index, std::uint16_t cell) const;
  bool can_empty(const State& state, std::size_t index) const;
  void empty_buffer(State& state, std::size_t index) const;
  void write(State& state, std::size_t index, std::uint16_t cell, std::uint64_t value) const;
  std::size_t stale_choices(const State& state, std::size_t index) const;
  std::uint64_t load(State& state, std::size_t index, const Op& op, std::size_t choice) const;
  static void forget_stale(Thread& thread, std::uint16_t cell, std::size_t keep);
  bool can_drain(const State& state, std::size_t index, std::size_t entry) const;
  void drain(State& state, std::size_t index, std::size_t entry) const;
  bool can_step(const State& state, std::size_t index) const;
  void step(State& state, std::size_t index, std::size_t choice);
  void wake(State& state, const Op& op, std::uint64_t& woken);
  void give(State& state, std::size_t index, std::uint64_t value) const;
  std::uint64_t seen(const State& state, std::size_t index, std::uint16_t cell) const;
  std::uint64_t changed(const Op& op, std::uint64_t old) const;
  Hash hash_of(const State& state) const;
  static std::string text_of(const Taken& taken);
  void fail(const std::string& what);

  std::vector<Body> bodies_;
  std::function<bool(const Results&)> check_;
  std::vector<std::uint64_t> masks_;  // a cell's width
  std::array<bool, kMaxCells> may_be_stale_{};
  State start_;
  std::unordered_map<Hash, double, HashOfHash> visited_;
  std::vector<Taken> path_;
  Exploration found_;

  // Where perform() stands while a body runs.
  State* running_state_ = nullptr;
  std::size_t running_ = 0;
  std::size_t position_ = 0;
  bool in_thread_ = false;
  const char* broken_ = nullptr;
  std::jmp_buf out_;
};

}  // namespace rankcast::base::stepping
