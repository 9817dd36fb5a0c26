// The loop of one rank of a reference, in a thread or in a process of its own.
#pragma once

#include "bench/lib/reference_memory.h"
#include "rankcast/kernel_abi.h"

namespace rankcast::bench {

/// Says through the memory that it is ready, and runs rounds until the memory says stop. Null for
/// `kernel`: descriptors are read and nothing runs.
void run_reference_rank(const ReferenceMemory& memory, int rank,
                        const rankcast_kernel* kernel) noexcept;

/// Instead of the loop, by a rank that cannot run: says so and waits until it is told to stop.
/// `text` is shown to the user.
void refuse_reference_rank(const ReferenceMemory& memory, int rank, const char* text) noexcept;

}  // namespace rankcast::bench
