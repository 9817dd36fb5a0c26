// The arguments of a submit, looked up once, and kept until the next: whoever submits the same
// tensors again finds them as they were.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/scratch.h"
#include "program/layout_table.h"
#include "rankcast/program.h"

namespace rankcast::program {

/// One thread at a time. Holds a copy of every argument, so that equal addresses mean equal tensors
/// and entries outlive the caller's array.
class ArgumentTable {
 public:
  /// Takes the arguments of a submit to mesh `incarnation`. True if every tensor is the one that
  /// stood in its place last time: entries and their layout numbers are then as they were. Throws
  /// `invalid_argument` for an empty tensor and `foreign_tensor`, with the argument's number; the
  /// next call then answers false.
  bool take(std::span<const Argument> arguments, std::uint64_t incarnation);

  /// Numbers the layouts of all tensors for a new run.
  void number_layouts(LayoutTable& table, base::Scratch<frame::LayoutRecord>& layouts);

  std::span<const detail::ArgumentEntry> entries() const noexcept { return entries_.span(); }

 private:
  void replace(std::size_t index, const Argument& argument, std::uint64_t incarnation);

  std::vector<Argument> held_;  // what the entries point into; may be longer than entries_
  base::Scratch<detail::ArgumentEntry> entries_;
  bool complete_ = false;  // every entry is that of its held argument
};

}  // namespace rankcast::program
