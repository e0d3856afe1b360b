#include "cut.h"

namespace pruned {

Outline outline_of(const Op& op) {
  return {.kind = op.kind,
          .root = op.root,
          .size = op.size,
          .count = op.count,
          .item = static_cast<std::int64_t>(op.item())};
}

Blocks blocks_of(const Op& op) {
  if (op.kind == Kind::kReduceScatter) {
    return op.sent_blocks();
  }
  return op.kind == Kind::kAllGather ? op.received_blocks() : Blocks(0, 0);
}

std::int64_t slice_elements(const Op& op, Sizes sizes) {
  return std::max(sizes.slice / static_cast<std::int64_t>(op.item()), std::int64_t{1});
}

}  // namespace pruned
