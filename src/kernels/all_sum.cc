// rankcast.all_sum
//
// A member's shared memory: a line of counters, then its elements. Each is written by the member
// and read by its peers:
//
//   given   rounds whose elements it has put there
//   taken   rounds in which it has read all its peers'
//   bytes   of its elements, and `type` their dtype: before the first round is given
//
// It puts the elements of a round there once every peer has taken the round before.
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <new>
#include <thread>

#include "kernels/builtin.h"
#include "kernels/check.h"
#include "kernels/element.h"
#include "kernels/strided.h"

namespace rankcast::kernels {
namespace {

// Each written by its member, read by the peers; ordered by seq_cst, after the elements it tells
// of.
struct alignas(64) Counters {
  std::uint64_t given;
  std::uint64_t taken;
  std::uint64_t bytes;
  std::uint64_t type;
};

/// What one member knows.
struct Member {
  std::uint64_t round = 0;
};

Counters& counters_of(void* shared) { return *static_cast<Counters*>(shared); }
void* elements_of(void* shared) { return static_cast<Counters*>(shared) + 1; }

void tell(std::uint64_t& counter, std::uint64_t round) { std::atomic_ref(counter).store(round); }

/// Until the counter of every member has reached `round`; false when the group is to give up.
bool wait_for_all(const rankcast_kernel_context& context, std::uint64_t Counters::* counter,
                  std::uint64_t round) {
  for (std::int32_t i = 0; i < context.member_count; ++i) {
    std::atomic_ref reached(counters_of(context.peer_shared[i]).*counter);
    while (reached.load() < round) {
      if (__atomic_load_n(context.abort_word, __ATOMIC_ACQUIRE) != 0) return false;
      std::this_thread::yield();
    }
  }
  return true;
}

// Signed integers are added as unsigned ones: the bits are the same, and wrapping is defined.
template <class T>
void add_peers(const rankcast_kernel_context& context, T* out, std::int64_t count) {
  for (std::int32_t i = 0; i < context.member_count; ++i) {
    const T* const peer = static_cast<const T*>(elements_of(context.peer_shared[i]));
    for (std::int64_t at = 0; at < count; ++at) out[at] = i == 0 ? peer[at] : out[at] + peer[at];
  }
}

/// Of another member's elements than this one's; -1 when all are alike. Once all have given.
std::int32_t find_unlike(const rankcast_kernel_context& context) {
  const Counters& own = counters_of(context.shared);
  for (std::int32_t i = 0; i < context.member_count; ++i) {
    const Counters& peer = counters_of(context.peer_shared[i]);
    if (peer.bytes != own.bytes || peer.type != own.type) return i;
  }
  return -1;
}

std::uint64_t bytes_of(const rankcast_call& call) {
  return static_cast<std::uint64_t>(element_count(call.tensors[0]) *
                                    size_bytes(call.tensors[0].dtype));
}

}  // namespace

int check_all_sum(const rankcast_call* call, rankcast_failure* failure) {
  if (call->tensor_count != 2) {
    return fail(failure, -1, "%u tensor(s) given, but the kernel takes 2: in, out",
                call->tensor_count);
  }
  if (require_scalars(*call, 0, failure) != RANKCAST_OK) return RANKCAST_FAILED;
  const auto dtype = dtype_of(call->tensors[0].dtype);
  if (dtype != DType::f32 && dtype != DType::i64) {
    return fail(failure, 0, "dtype %s, but the kernel takes f32 and i64",
                dtype_text(call->tensors[0].dtype).data());
  }
  if (require_same(*call, 1, 0, failure) != RANKCAST_OK) return RANKCAST_FAILED;
  for (std::uint32_t i = 0; i < 2; ++i) {
    if (!is_dense(call->tensors[i])) {
      return fail(failure, static_cast<std::int32_t>(i),
                  "a view with gaps or in another order; the kernel takes row-major tensors");
    }
  }
  if (require_readable(*call, 0, failure) != RANKCAST_OK) return RANKCAST_FAILED;
  return require_writable(*call, 1, failure);
}

int prepare_all_sum(const rankcast_kernel_context* context, const rankcast_call* call,
                    rankcast_preparation* preparation, rankcast_failure* failure) {
  if (context->member_count == 0) {
    return fail(failure, -1, "the task is no member of a group; submit it by submit_group");
  }
  preparation->state = new (std::nothrow) Member();
  if (preparation->state == nullptr) return fail(failure, -1, "no memory");
  preparation->shared_bytes = sizeof(Counters) + bytes_of(*call);
  return RANKCAST_OK;
}

int run_all_sum(const rankcast_kernel_context* context, void* state, const rankcast_call* call,
                rankcast_failure* failure) {
  const std::uint64_t round = ++static_cast<Member*>(state)->round;
  Counters& own = counters_of(context->shared);
  if (!wait_for_all(*context, &Counters::taken, round - 1)) {
    return fail(failure, -1, "told to give up before its peers had taken the last round");
  }
  own.bytes = bytes_of(*call);
  own.type = std::bit_cast<std::uint32_t>(call->tensors[0].dtype);
  std::memcpy(elements_of(context->shared), call->tensors[0].data, own.bytes);
  tell(own.given, round);
  if (!wait_for_all(*context, &Counters::given, round)) {
    return fail(failure, -1, "told to give up while it waited for its peers");
  }
  if (const std::int32_t peer = find_unlike(*context); peer >= 0) {
    const Counters& other = counters_of(context->peer_shared[peer]);
    return fail(failure, 0,
                "%s%s, but the tensor of member %d of the group has %llu bytes%s; all members take "
                "one shape and one dtype",
                dtype_text(call->tensors[0].dtype).data(), shape_text(call->tensors[0]).data(),
                static_cast<int>(peer), static_cast<unsigned long long>(other.bytes),
                other.type == own.type ? "" : " of another dtype");
  }
  const std::int64_t count = element_count(call->tensors[1]);
  if (dtype_of(call->tensors[1].dtype) == DType::f32) {
    add_peers(*context, static_cast<float*>(call->tensors[1].data), count);
  } else {
    add_peers(*context, static_cast<std::uint64_t*>(call->tensors[1].data), count);
  }
  tell(own.taken, round);
  return RANKCAST_OK;
}

void release_all_sum(void* state) { delete static_cast<Member*>(state); }

}  // namespace rankcast::kernels
