// rankcast.copy
#include <cstring>

#include "kernels/builtin.h"
#include "kernels/check.h"
#include "kernels/strided.h"

namespace rankcast::kernels {
namespace {

template <class Word>
void copy_strided(const DLTensor& from, const DLTensor& to) {
  const Word* source = static_cast<const Word*>(from.data);
  Word* destination = static_cast<Word*>(to.data);
  Cursor source_cursor(from);
  Cursor destination_cursor(to);
  source_cursor.take_all(element_count(from), [&](Cursor::Piece piece) {
    const Word* next = source + piece.offset;
    destination_cursor.take_all(piece.count, [&](const Cursor::Piece& part) {
      copy_elements(destination + part.offset, part.stride, next, piece.stride, part.count);
      next += part.count * piece.stride;
    });
  });
}

}  // namespace

int check_copy(const rankcast_call* call, rankcast_failure* failure) {
  if (call->tensor_count != 2) {
    return fail(failure, -1, "%u tensor(s) given, but the kernel takes 2: in, out",
                call->tensor_count);
  }
  if (require_scalars(*call, 0, failure) != RANKCAST_OK) return RANKCAST_FAILED;
  if (require_known_dtype(*call, 0, failure) != RANKCAST_OK) return RANKCAST_FAILED;
  if (require_same(*call, 1, 0, failure) != RANKCAST_OK) return RANKCAST_FAILED;
  if (require_readable(*call, 0, failure) != RANKCAST_OK) return RANKCAST_FAILED;
  return require_writable(*call, 1, failure);
}

int run_copy(const rankcast_kernel_context* /*context*/, void* /*state*/, const rankcast_call* call,
             rankcast_failure* /*failure*/) {
  const DLTensor& from = call->tensors[0];
  const DLTensor& to = call->tensors[1];
  const std::int64_t bytes = size_bytes(from.dtype);
  if (is_dense(from) && is_dense(to)) {
    std::memcpy(to.data, from.data, static_cast<std::size_t>(element_count(from) * bytes));
    return RANKCAST_OK;
  }
  with_word(bytes, [&](auto word) { copy_strided<decltype(word)>(from, to); });
  return RANKCAST_OK;
}

}  // namespace rankcast::kernels
