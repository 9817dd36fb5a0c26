// Where the temporaries of a run lie in the heap blocks of their ranks (PROTOCOL P9).
//
// A temporary is alive from the first task that names it to the last, in the order of submission.
// One that is dead gives its bytes to those that come after it; the tasks of these then come after
// all of its own (TaskOrder), so that ranks that run several tasks at a time re-use no byte early.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/scratch.h"
#include "graph/run_draft.h"

namespace rankcast::graph {

/// Every temporary begins at, and takes, a multiple of this many bytes.
inline constexpr std::uint64_t kTemporaryAlignment = 128;

/// Used by one thread at a time; keeps its memory. Cost: linear in arguments, and for each
/// temporary the number of gaps that its rank's block has at that time.
class HeapLayout {
 public:
  /// A task that reads a temporary which no earlier task has written.
  struct Unwritten {
    std::uint32_t task = 0;
    std::uint32_t argument = 0;
  };

  /// Places every temporary that a task names: sets its offset and what it lies over, the bytes
  /// that each lane's block takes, and the offsets of all arguments that name temporaries. The
  /// draft may have been laid out before.
  std::optional<Unwritten> lay_out(RunDraft& draft);

 private:
  /// Bytes of a block that no living temporary has.
  struct Gap {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint32_t last = 0;  // that had them
  };

  /// The block of one rank so far.
  struct HeapBlock {
    std::vector<Gap> gaps;  // by offset; neighbours may touch
    std::uint64_t bytes = 0;
  };

  std::optional<Unwritten> find_lives(RunDraft& draft);
  void place(RunDraft& draft, std::uint32_t number);
  void release(const Temporary& temporary, std::uint32_t number);

  std::vector<HeapBlock> blocks_;        // by rank
  base::Scratch<std::uint32_t> births_;  // temporaries by first task
  base::Scratch<std::uint32_t> deaths_;  // likewise by last task
};

}  // namespace rankcast::graph
