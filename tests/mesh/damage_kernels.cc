// A kernel library of damage: its kernel finds the memory that host and ranks share, and writes a
// record into its own rank's ring.
#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include "base/fd.h"
#include "frame/records.h"
#include "link/control.h"
#include "rankcast/kernel_abi.h"

namespace {

using namespace rankcast;

/// The start of the control memory: the mapping that begins as it does. Read through /proc, since
/// not all that is mapped may be touched.
std::byte* control_memory(int world_size) {
  const base::Fd memory(open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line)) {
    unsigned long begin = 0;
    char writable = 0;
    if (std::sscanf(line.c_str(), "%lx-%*x r%c", &begin, &writable) != 2 || writable != 'w')
      continue;
    link::ControlHeader header;
    std::uint32_t words[3] = {};
    if (pread(memory.get(), words, sizeof(words), static_cast<off_t>(begin)) != sizeof(words))
      continue;
    if (words[0] == header.magic && words[1] == header.format &&
        words[2] == static_cast<std::uint32_t>(world_size)) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): that is what the file says
      return reinterpret_cast<std::byte*>(begin);
    }
  }
  return nullptr;
}

// A stop that the host has not sent.
int forge_stop(const rankcast_kernel_context* context, void* /*state*/,
               const rankcast_call* /*call*/, rankcast_failure* /*failure*/) {
  std::byte* memory = control_memory(context->world_size);
  if (memory == nullptr) return RANKCAST_FAILED;
  const auto& header = *reinterpret_cast<link::ControlHeader*>(memory);
  auto control = link::Control::attach(memory, header.total_bytes);
  if (!control) return RANKCAST_FAILED;
  frame::Record stop;
  stop.kind = frame::RecordKind::stop;
  stop.lane = static_cast<std::uint32_t>(context->rank);
  link::Channel& channel = control->channel(context->rank);
  const std::uint64_t tail = base::load_seq_cst(channel.tail.count);
  const auto slots = control->slots(context->rank);
  slots[tail % slots.size()] = std::bit_cast<link::RecordBytes>(stop);
  base::store_seq_cst(channel.tail.count, tail + 1);
  return RANKCAST_OK;
}

constexpr rankcast_kernel kernels[] = {{.struct_size = sizeof(rankcast_kernel),
                                        .flags = 0,
                                        .name = "damage.forges_stop",
                                        .check = nullptr,
                                        .prepare = nullptr,
                                        .run = forge_stop,
                                        .release = nullptr}};

}  // namespace

extern "C" __attribute__((visibility("default"))) const rankcast_kernel_table rankcast_kernels = {
    .abi_version = RANKCAST_KERNEL_ABI_VERSION,
    .struct_size = sizeof(rankcast_kernel_table),
    .kernel_size = sizeof(rankcast_kernel),
    .kernel_count = 1,
    .kernels = kernels,
    .library_name = "damage",
    .library_version = "1",
};
