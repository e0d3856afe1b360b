#include "pairs.h"

namespace pruned {
namespace {

/// One block for each other member, `direction` 1 for those on the right, -1 for those on the left, nearest first.
std::vector<Exchange> with_all(const Blocks& blocks, int rank, int size, int direction) {
  std::vector<Exchange> result;
  result.reserve(size - 1);
  for (int k = 1; k < size; ++k) {
    const int peer = wrapped(std::int64_t{rank} + direction * k, size);
    result.push_back({peer, blocks[peer]});
  }
  return result;
}

}  // namespace

std::vector<Exchange> outgoing(const Op& op, int rank) {
  if (op.kind == Kind::kGather) {
    return rank == op.root ? std::vector<Exchange>{} : std::vector<Exchange>{{op.root, {0, op.count}}};
  }
  if (op.kind == Kind::kScatter && rank != op.root) {
    return {};
  }
  return with_all(op.sent_blocks(), rank, op.size, 1);
}

std::vector<Exchange> incoming(const Op& op, int rank) {
  if (op.kind == Kind::kScatter) {
    return rank == op.root ? std::vector<Exchange>{} : std::vector<Exchange>{{op.root, {0, op.count}}};
  }
  if (op.kind == Kind::kGather && rank != op.root) {
    return {};
  }
  return with_all(op.received_blocks(), rank, op.size, -1);
}

OwnBlock own_block(const Op& op, int rank) {
  if (op.kind == Kind::kAllToAll) {
    return {op.sent_blocks()[rank], op.received_blocks()[rank]};
  }
  if (rank != op.root) {
    return {};
  }
  const Extent whole{0, op.count};
  return op.kind == Kind::kGather ? OwnBlock{whole, op.received_blocks()[rank]}
                                  : OwnBlock{op.sent_blocks()[rank], whole};
}

}  // namespace pruned
