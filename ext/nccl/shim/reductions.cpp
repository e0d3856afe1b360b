// Reductions that a program makes for a communicator.

#include <cstring>

#include "communicator.h"
#include "failure.h"
#include "handles.h"
#include "real.h"
#include "types.h"

namespace pruned::shim {
namespace {

constexpr int kScalarOnDevice = 0;

Scale scale_of(const void* scalar, int dtype, int residence) {
  Scale scale{.dtype = dtype_of(dtype)};
  if (!is_float(scale.dtype)) {
    throw Failure(kInvalidArgument, "inputs of an emulated communicator can be multiplied only if they are floats");
  }
  if (residence == kScalarOnDevice) {
    scale.device = scalar;
  } else {
    std::memcpy(scale.number.data(), scalar, itemsize(scale.dtype));
  }
  return scale;
}

}  // namespace
}  // namespace pruned::shim

using namespace pruned::shim;

SHIM_ENTRY Result ncclRedOpCreatePreMulSum(int* op, void* scalar, int dtype, int residence, Comm comm) {
  if (!is_ours(comm)) {
    return SHIM_PASS(ncclRedOpCreatePreMulSum, op, scalar, dtype, residence, comm);
  }
  return guarded([&] {
    *op = communicator(comm).scales().add(scale_of(scalar, dtype, residence));
    return kSuccess;
  });
}

SHIM_ENTRY Result ncclRedOpDestroy(int op, Comm comm) {
  if (!is_ours(comm)) {
    return SHIM_PASS(ncclRedOpDestroy, op, comm);
  }
  return guarded([&] {
    communicator(comm).scales().remove(op);
    return kSuccess;
  });
}
