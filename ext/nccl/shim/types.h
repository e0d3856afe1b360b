// NCCL's numbers for types of elements and reductions, as the engine's. Throws Failure for one that it does not have.

#pragma once

#include "../element.h"

namespace pruned::shim {

Dtype dtype_of(int nccl);
/// Of one of NCCL's own reductions; see Scales for the others.
Reduce reduce_of(int nccl);

}  // namespace pruned::shim
