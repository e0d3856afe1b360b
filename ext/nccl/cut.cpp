#include "cut.h"

#include <algorithm>

namespace pruned {
namespace {

constexpr std::int64_t kAlign = 16;

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

Blocks blocks_of(const Op& op) {
  if (op.kind == Kind::kReduceScatter) {
    return op.sent_blocks();
  }
  return op.kind == Kind::kAllGather ? op.received_blocks() : Blocks(0, 0);
}

/// What is left of an all_reduce over N, in whole units of 16 bytes.
std::int64_t last_chunk(std::int64_t left, std::int64_t item, int size) {
  const std::int64_t bytes = divided_up(left, size) * item;
  return std::max(divided_up(bytes, kAlign) * kAlign / item, std::int64_t{1});
}

}  // namespace

Cut::Cut(const Op& op, Sizes sizes)
    : kind_(op.kind),
      size_(op.size),
      count_(op.count),
      blocks_(blocks_of(op)),
      full_(std::max((is_chain(op.kind) ? sizes.slice : sizes.chunk) / static_cast<std::int64_t>(op.item()),
                     std::int64_t{1})) {
  if (kind_ == Kind::kAllReduce) {
    const std::int64_t left = count_ % (size_ * full_);
    loops_ = divided_up(count_, size_ * full_);
    last_ = left == 0 ? full_ : last_chunk(left, static_cast<std::int64_t>(op.item()), size_);
  } else {
    const std::int64_t longest = is_chain(kind_) ? count_ : blocks_.longest();
    loops_ = divided_up(longest, full_);
    last_ = longest - std::max(loops_ - 1, std::int64_t{0}) * full_;
  }
}

Extent Cut::chunk(std::int64_t loop, int owner) const {
  if (kind_ == Kind::kAllReduce) {
    const std::int64_t length = weight(loop);
    const std::int64_t first = std::min(loop * size_ * full_ + owner * length, count_);
    return {first, std::min(first + length, count_)};
  }
  return within_block(is_chain(kind_) ? Extent{0, count_} : blocks_[owner], loop);
}

std::int64_t Cut::weight(std::int64_t loop) const { return loop + 1 < loops_ ? full_ : last_; }

Extent Cut::within_block(const Extent& block, std::int64_t loop) const {
  const std::int64_t first = std::min(block.first + loop * full_, block.last);
  return {first, std::min(first + full_, block.last)};
}

Extent Slices::operator[](std::int64_t index) const {
  const std::int64_t first = extent_.first + index * elements_;
  return {first, std::min(first + elements_, extent_.last)};
}

std::int64_t slice_elements(const Op& op, Sizes sizes) {
  return std::max(sizes.slice / static_cast<std::int64_t>(op.item()), std::int64_t{1});
}

}  // namespace pruned
