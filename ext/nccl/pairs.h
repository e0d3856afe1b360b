// Who exchanges which block with whom in gather, scatter and all_to_all: at step k each member sends to the k-th member
// on its right and receives from the k-th on its left, as far as the operation has blocks for it.

#pragma once

#include <vector>

#include "member_plan.h"
#include "op.h"

namespace pruned {

/// A block that goes to, or comes from, another member; the extent is one of the own input, or of the own output.
struct Exchange {
  int peer;
  Extent extent;
};

std::vector<Exchange> outgoing(const Op& op, int rank);
std::vector<Exchange> incoming(const Op& op, int rank);

/// Where a member's own block lies in its input and in its output; nothing where it keeps none.
struct OwnBlock {
  Extent input;
  Extent output;
};
OwnBlock own_block(const Op& op, int rank);

/// The step at which two members meet.
constexpr int meeting(int from, int to, int size) { return wrapped(std::int64_t{to} - from, size); }

}  // namespace pruned
