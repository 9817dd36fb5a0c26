// Whether a kernel takes a call: asked of its `check` on the host, once for calls of one kind.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/scratch.h"
#include "base/status.h"
#include "frame/encode.h"
#include "frame/records.h"
#include "program/check_memo.h"
#include "program/kernel_catalog.h"

namespace rankcast::program {

/// A kernel that was found by its name.
struct NamedKernel {
  std::string name;
  CatalogEntry entry;
};

/// One thread at a time; keeps its memory. Calls without scalars that equal one which passed cost a
/// comparison.
class KernelChecks {
 public:
  /// Checks the call of `task`, whose arguments and scalars lie in `lane`; `signature` is one word
  /// a tensor, (layout id << 3) | tag. Sets `prepare_id`. A refusal is `invalid_argument` with the
  /// kernel's text.
  base::Status check(const NamedKernel& kernel, int rank, const frame::TaskRecord& task,
                     const frame::FrameDraft& lane, std::span<frame::LayoutRecord> layouts,
                     std::span<const std::uint32_t> signature, std::uint64_t* prepare_id);

  /// Asks the kernel, whatever is remembered.
  base::Status ask(const NamedKernel& kernel, int rank, const frame::TaskRecord& task,
                   const frame::FrameDraft& lane, std::span<frame::LayoutRecord> layouts);

  /// When layout ids have lost their meaning.
  void clear() noexcept { memo_.clear(); }

 private:
  CheckMemo memo_;
  base::Scratch<DLTensor> tensors_;
  base::Scratch<std::uint8_t> tags_;
  base::Scratch<rankcast_scalar> scalars_;
};

}  // namespace rankcast::program
