// A kernel library for tests of a whole mesh: it tells how often it was prepared and what it was
// given.
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>

#include "rankcast/kernel_abi.h"

namespace {

// Of the process: a test reads them through `probe.counts`.
std::atomic<std::int64_t> prepared{0};
std::atomic<std::int64_t> released{0};

int check(const rankcast_call* call, rankcast_failure* failure) {
  if (call->tensor_count == 1 && call->tensors[0].dtype.bits == 64) return RANKCAST_OK;
  failure->argument = 0;
  std::snprintf(failure->text, sizeof(failure->text),
                "argument 0: one tensor of 64-bit elements is wanted");
  return RANKCAST_FAILED;
}

int prepare(const rankcast_kernel_context* context, const rankcast_call* call,
            rankcast_preparation* preparation, rankcast_failure* /*failure*/) {
  if (context->rank < 0 || call->tensors[0].data != nullptr) return RANKCAST_FAILED;
  prepared.fetch_add(1);
  preparation->state = new std::int64_t(call->tensors[0].shape[0]);
  preparation->workspace_bytes = 4096;
  return RANKCAST_OK;
}

// Writes the extent that it was prepared for, through its workspace.
int run(const rankcast_kernel_context* context, void* state, const rankcast_call* call,
        rankcast_failure* /*failure*/) {
  if (context->workspace == nullptr || context->workspace_bytes < 4096) return RANKCAST_FAILED;
  std::memcpy(context->workspace, state, sizeof(std::int64_t));
  auto* out = static_cast<std::int64_t*>(call->tensors[0].data);
  std::memcpy(&out[0], context->workspace, sizeof(std::int64_t));
  return RANKCAST_OK;
}

void release(void* state) {
  released.fetch_add(1);
  delete static_cast<std::int64_t*>(state);
}

int counts(const rankcast_kernel_context* /*context*/, void* /*state*/, const rankcast_call* call,
           rankcast_failure* /*failure*/) {
  auto* out = static_cast<std::int64_t*>(call->tensors[0].data);
  out[0] = prepared.load();
  out[1] = released.load();
  return RANKCAST_OK;
}

// Its rank dies between its last store and its end.
int die(const rankcast_kernel_context* /*context*/, void* /*state*/, const rankcast_call* call,
        rankcast_failure* /*failure*/) {
  static_cast<std::int64_t*>(call->tensors[0].data)[0] = 1;
  kill(getpid(), SIGKILL);
  return RANKCAST_OK;
}

int refuse(const rankcast_kernel_context* /*context*/, const rankcast_call* /*call*/,
           rankcast_preparation* /*preparation*/, rankcast_failure* failure) {
  std::snprintf(failure->text, sizeof(failure->text), "cannot be prepared here");
  return RANKCAST_FAILED;
}

// Where its inputs are, in its output: address and elements of each.
int where(const rankcast_kernel_context* /*context*/, void* /*state*/, const rankcast_call* call,
          rankcast_failure* /*failure*/) {
  auto* out = static_cast<std::int64_t*>(call->tensors[call->tensor_count - 1].data);
  for (std::uint32_t i = 0; i + 1 < call->tensor_count; ++i) {
    out[2 * i] = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(call->tensors[i].data));
    out[2 * i + 1] = call->tensors[i].shape[0];
  }
  return RANKCAST_OK;
}

int plus_one(const rankcast_kernel_context* /*context*/, void* /*state*/, const rankcast_call* call,
             rankcast_failure* /*failure*/) {
  static_cast<std::int64_t*>(call->tensors[0].data)[0] += 1;
  return RANKCAST_OK;
}

// Tells by a file that it is there, and waits until somebody writes to a pipe of that name.
int pipe_gate(const rankcast_kernel_context* /*context*/, void* /*state*/,
              const rankcast_call* /*call*/, rankcast_failure* /*failure*/) {
  const char* path = std::getenv("RANKCAST_TEST_PROBE_GATE");
  if (path == nullptr) return RANKCAST_FAILED;
  if (std::FILE* entered = std::fopen((std::string(path) + ".entered").c_str(), "w"))
    std::fclose(entered);
  std::FILE* pipe = std::fopen(path, "r");
  if (pipe == nullptr) return RANKCAST_FAILED;
  std::fclose(pipe);
  return RANKCAST_OK;
}

// Blocks until the file `open.N` is in the folder that RANKCAST_TEST_PROBE_GATES names; N is its
// scalar. Makes `entered.N` there first. Fails instead of hanging.
int gate(const rankcast_kernel_context* /*context*/, void* /*state*/, const rankcast_call* call,
         rankcast_failure* failure) {
  const char* folder = std::getenv("RANKCAST_TEST_PROBE_GATES");
  if (folder == nullptr || call->scalar_count != 1) return RANKCAST_FAILED;
  const auto number = static_cast<long long>(call->scalars[0].value.i64);
  char path[512];
  std::snprintf(path, sizeof(path), "%s/entered.%lld", folder, number);
  if (std::FILE* file = std::fopen(path, "wb"); file != nullptr) std::fclose(file);
  std::snprintf(path, sizeof(path), "%s/open.%lld", folder, number);
  for (int i = 0; i < 60'000; ++i) {
    if (access(path, F_OK) == 0) return RANKCAST_OK;
    poll(nullptr, 0, 1);
  }
  std::snprintf(failure->text, sizeof(failure->text), "gate %lld was never opened", number);
  return RANKCAST_FAILED;
}

// Lets others run first, as often as its scalar says.
int yield(const rankcast_kernel_context* /*context*/, void* /*state*/, const rankcast_call* call,
          rankcast_failure* /*failure*/) {
  for (std::int64_t i = 0; i < call->scalars[0].value.i64; ++i) sched_yield();
  return RANKCAST_OK;
}

// Takes as many milliseconds as its scalar says.
int take_time(const rankcast_kernel_context* /*context*/, void* /*state*/,
              const rankcast_call* call, rankcast_failure* /*failure*/) {
  if (call->scalar_count != 1) return RANKCAST_FAILED;
  poll(nullptr, 0, static_cast<int>(call->scalars[0].value.i64));
  return RANKCAST_OK;
}

// A file that is not the same for whoever loads it next.
__attribute__((constructor)) void change_file() {
  const char* path = std::getenv("RANKCAST_TEST_PROBE_UNLINKS");
  if (path != nullptr) unlink(path);
  path = std::getenv("RANKCAST_TEST_PROBE_APPENDS");
  std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "ab");
  if (file == nullptr) return;
  std::fputc('x', file);
  std::fclose(file);
}

constexpr rankcast_kernel kernel(const char* name, decltype(rankcast_kernel::check) check_call,
                                 decltype(rankcast_kernel::prepare) prepare_call,
                                 decltype(rankcast_kernel::run) run_call,
                                 decltype(rankcast_kernel::release) release_state) {
  return {.struct_size = sizeof(rankcast_kernel),
          .flags = 0,
          .name = name,
          .check = check_call,
          .prepare = prepare_call,
          .run = run_call,
          .release = release_state};
}

constexpr rankcast_kernel kernels[] = {
    kernel("probe.prepared", check, prepare, run, release),
    kernel("probe.counts", check, nullptr, counts, nullptr),
    kernel("probe.refuses", nullptr, refuse, counts, nullptr),
    kernel("probe.dies", check, nullptr, die, nullptr),
    kernel("probe.where", nullptr, nullptr, where, nullptr),
    kernel("probe.plus_one", check, nullptr, plus_one, nullptr),
    kernel("probe.pipe_gate", nullptr, nullptr, pipe_gate, nullptr),
    kernel("probe.gate", nullptr, nullptr, gate, nullptr),
    kernel("probe.yields", nullptr, nullptr, yield, nullptr),
    kernel("probe.sleeps", nullptr, nullptr, take_time, nullptr),
};

}  // namespace

const rankcast_kernel_table rankcast_kernels = {
    .abi_version = RANKCAST_KERNEL_ABI_VERSION,
    .struct_size = sizeof(rankcast_kernel_table),
    .kernel_size = sizeof(rankcast_kernel),
    .kernel_count = std::size(kernels),
    .kernels = kernels,
    .library_name = "probe",
    .library_version = "1",
};
