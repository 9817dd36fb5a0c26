// The arguments of a submit, looked up once and compared with those of the submit before: most are
// the same tensors again, or others of the same layout.
#pragma once

#include <cstdint>
#include <span>

#include "base/scratch.h"
#include "program/layout_table.h"
#include "rankcast/program.h"

namespace rankcast::program {

/// What the arguments of a submit are to those of the last one.
enum class Likeness : std::uint8_t {
  same,       ///< Every tensor is the one that stood in its place.
  alike,      ///< Or another of the same layout: its entry is marked `changed`.
  different,  ///< In number, kind or layout.
};

/// One thread at a time. Allocates only when it meets more arguments than ever before.
class ArgumentTable {
 public:
  /// Takes the arguments of a submit to mesh `incarnation`; entries point into them. `layouts` is
  /// the table that numbered the last ones. Unless the answer is `different`, the numbers of all
  /// layouts are still as they were. Throws `invalid_argument` for an empty tensor and
  /// `foreign_tensor`, with the argument's number; the next call then answers `different`.
  Likeness take(std::span<const Argument> arguments, std::uint64_t incarnation,
                const LayoutTable& layouts);

  /// Numbers the layouts of all tensors for a new run.
  void number_layouts(LayoutTable& table, base::Scratch<frame::LayoutRecord>& layouts);

  /// Good while the arguments taken last live.
  std::span<const detail::ArgumentEntry> entries() const noexcept { return entries_.span(); }

 private:
  /// By which a tensor is known in the next submit: a stack by its serial, any other by its place.
  struct Identity {
    std::uint64_t serial = 0;  // 0: no stack
    std::uint64_t offset_bytes = 0;
    detail::Shard shard;

    bool names_same_tensor(const Identity& other) const noexcept {
      return serial == other.serial && offset_bytes == other.offset_bytes &&
             shard.slot == other.shard.slot && shard.generation == other.shard.generation &&
             shard.rank == other.shard.rank;
    }
  };

  base::Scratch<detail::ArgumentEntry> entries_;
  base::Scratch<Identity> identities_;  // one an entry
  bool complete_ = false;               // all are those of the last submit, their layouts numbered
};

}  // namespace rankcast::program
