// A kernel library: "blas.axpy" computes y = a * x + y, the operation of that name in BLAS.
//
// Tensors: x (in) and y (inout), f32, one shape of any number of dimensions, without gaps.
// Scalars: a, f64. Errors: `check` names the argument at fault, before anything runs.
#include <rankcast/kernel_abi.h>

#include <cstdint>
#include <cstdio>

namespace {

int refuse(rankcast_failure* failure, int argument, const char* text) {
  failure->argument = argument;
  std::snprintf(failure->text, sizeof(failure->text), "%s", text);
  return RANKCAST_FAILED;
}

bool is_dense_f32(const DLTensor& tensor) {
  if (tensor.dtype.code != kDLFloat || tensor.dtype.bits != 32 || tensor.dtype.lanes != 1)
    return false;
  std::int64_t stride = 1;
  for (int d = tensor.ndim - 1; d >= 0; --d) {
    if (tensor.strides[d] != stride) return false;
    stride *= tensor.shape[d];
  }
  return true;
}

// On the host, at submit: tensors have shapes here, and no data.
int check_axpy(const rankcast_call* call, rankcast_failure* failure) {
  if (call->tensor_count != 2) return refuse(failure, -1, "wanted: x and y");
  if (call->scalar_count != 1 || call->scalars[0].type != RANKCAST_SCALAR_F64)
    return refuse(failure, -1, "wanted: one scalar, a floating-point number");
  for (int i = 0; i < 2; ++i) {
    if (!is_dense_f32(call->tensors[i])) return refuse(failure, i, "wanted: f32 without gaps");
  }
  const DLTensor& x = call->tensors[0];
  const DLTensor& y = call->tensors[1];
  if (x.ndim != y.ndim) return refuse(failure, 1, "y has not the shape of x");
  for (int d = 0; d < x.ndim; ++d) {
    if (x.shape[d] != y.shape[d]) return refuse(failure, 1, "y has not the shape of x");
  }
  return RANKCAST_OK;
}

// On the rank, in its own thread or process: what `check` has passed need not be looked at again.
int run_axpy(const rankcast_kernel_context* /*context*/, void* /*state*/, const rankcast_call* call,
             rankcast_failure* /*failure*/) {
  const DLTensor& x = call->tensors[0];
  const auto a = static_cast<float>(call->scalars[0].value.f64);
  const auto* from = static_cast<const float*>(x.data);
  auto* to = static_cast<float*>(call->tensors[1].data);
  std::int64_t count = 1;
  for (int d = 0; d < x.ndim; ++d) count *= x.shape[d];
  for (std::int64_t i = 0; i < count; ++i) to[i] += a * from[i];
  return RANKCAST_OK;
}

const rankcast_kernel kKernels[] = {
    {sizeof(rankcast_kernel), 0, "blas.axpy", check_axpy, nullptr, run_axpy, nullptr},
};

}  // namespace

const rankcast_kernel_table rankcast_kernels = {RANKCAST_KERNEL_ABI_VERSION,
                                                sizeof(rankcast_kernel_table),
                                                sizeof(rankcast_kernel),
                                                1,
                                                kKernels,
                                                "axpy",
                                                "1.0"};
