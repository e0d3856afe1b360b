// What the virtual members of an operation bring, and how it will lie in device memory.

#pragma once

#include <span>
#include <vector>

#include "plan.h"

namespace pruned::device {

/// What one entry reads, and where in its region each part begins.
struct Reading {
  const void* group = nullptr;  // whose operation it is
  struct Placed {
    Part part;
    std::int64_t at = 0;
  };
  std::int64_t bytes = 0;  // of the region
  std::vector<Placed> parts;
  std::int64_t head = -1, tail = -1, final = -1;  // -1: there is none
};

/// Lays out what an operation brings; `offsets`, by partner: where its payload begins, -1 if it has none.
Reading reading_of(const PlannedOp& op, std::vector<std::int64_t>* offsets = nullptr);

/// Takes away what no kernel looks at: what an arc would bring where there is none before the member, and messages of
/// sandbox members, who send them themselves.
void drop_unread(PlannedOp& op, bool has_arc, std::span<const int> sandbox);

}  // namespace pruned::device
