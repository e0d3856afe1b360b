// How the data of a collective are cut: into loops, and each loop into chunks, one for each member.
//
// The sizes are those of NCCL's Simple protocol on one channel: a chunk is 4 slots of 512 KiB, in a chain 1 slot; the
// last loop of an all_reduce is what is left over N, rounded up to 16 bytes. prism/core/ring.py cuts alike, so that
// both make sums in one order. With several channels each would have a cut of its own part of the data.
//
// The plans are constexpr throughout, so that the kernels of cuda/ run the same code; there blocks are even.

#pragma once

#include <algorithm>

#include "op.h"

namespace pruned {

/// Sizes in bytes; tests make them small.
struct Sizes {
  std::int64_t chunk = 4 * 512 * 1024;
  std::int64_t slice = 512 * 1024;  // what fits a slot; a chunk has at most 4, so that no ring fills its 8 slots
};

/// Every `stride`-th loop, from `first` on: channels that share an operation can each do loops of their own.
struct Turns {
  int first = 0;
  int stride = 1;
};

/// What the plans have to know of an operation besides its blocks.
struct Outline {
  Kind kind = Kind::kBarrier;
  int root = -1;
  int size = 1;
  std::int64_t count = 0;
  std::int64_t item = 1;  // bytes of an element
  Turns turns = {};       // the loops that are planned; all others are as if they were not
};

/// Blocks of one length, as NCCL's collectives have them.
struct EvenBlocks {
  std::int64_t each = 0;

  constexpr Extent operator[](int member) const { return {member * each, (member + 1) * each}; }
  constexpr std::int64_t longest() const { return each; }
};

constexpr std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

template <class B>
class BasicCut {
 public:
  constexpr BasicCut(const Outline& of, const B& blocks, Sizes sizes)
      : kind_(of.kind),
        size_(of.size),
        count_(of.count),
        turns_(of.turns),
        blocks_(blocks),
        full_(std::max((is_chain(of.kind) ? sizes.slice : sizes.chunk) / of.item, std::int64_t{1})) {
    if (kind_ == Kind::kAllReduce) {
      const std::int64_t left = count_ % (size_ * full_);
      all_ = divided_up(count_, size_ * full_);
      last_ = left == 0 ? full_ : last_chunk(left, of.item, size_);
    } else {
      const std::int64_t longest = is_chain(kind_) ? count_ : blocks_.longest();
      all_ = divided_up(longest, full_);
      last_ = longest - std::max(all_ - 1, std::int64_t{0}) * full_;
    }
    loops_ = divided_up(std::max(all_ - turns_.first, std::int64_t{0}), turns_.stride);
  }

  constexpr std::int64_t loops() const { return loops_; }

  /// The elements of the chunk of `owner` in this loop; may be empty. A chain has one chunk a loop, whoever asks.
  constexpr Extent chunk(std::int64_t loop, int owner) const {
    if (kind_ == Kind::kAllReduce) {
      const std::int64_t length = weight(loop);
      const std::int64_t first = std::min(among_all(loop) * size_ * full_ + owner * length, count_);
      return {first, std::min(first + length, count_)};
    }
    return within_block(is_chain(kind_) ? Extent{0, count_} : blocks_[owner], among_all(loop));
  }

  /// What all chunks before this loop weigh, and what one chunk of it does: the share of time that steps take.
  constexpr std::int64_t weight_before(std::int64_t loop) const { return loop * full_; }
  constexpr std::int64_t weight(std::int64_t loop) const { return among_all(loop) + 1 < all_ ? full_ : last_; }
  /// The elements of the longest chunk of all loops.
  constexpr std::int64_t longest() const { return all_ > 1 ? full_ : last_; }

 private:
  constexpr std::int64_t among_all(std::int64_t loop) const { return turns_.first + loop * turns_.stride; }

  /// What is left of an all_reduce over N, in whole units of 16 bytes.
  static constexpr std::int64_t last_chunk(std::int64_t left, std::int64_t item, int size) {
    constexpr std::int64_t kAlign = 16;
    const std::int64_t bytes = divided_up(left, size) * item;
    return std::max(divided_up(bytes, kAlign) * kAlign / item, std::int64_t{1});
  }

  constexpr Extent within_block(const Extent& block, std::int64_t loop) const {
    const std::int64_t first = std::min(block.first + loop * full_, block.last);
    return {first, std::min(first + full_, block.last)};
  }

  Kind kind_;
  int size_;
  std::int64_t count_;
  Turns turns_;
  B blocks_;           // reduce_scatter, all_gather: each member's part of the data
  std::int64_t full_;  // elements of a chunk in all loops but the last
  std::int64_t all_ = 0;   // loops, of others too
  std::int64_t loops_ = 0;
  std::int64_t last_ = 0;  // elements of a chunk in the last loop of all
};

using Cut = BasicCut<Blocks>;

/// What a cut takes of an operation with blocks of any length.
Outline outline_of(const Op& op);
Blocks blocks_of(const Op& op);

/// The pieces of an extent that fit slots; an empty one has one empty piece, as a step is taken all the same.
class Slices {
 public:
  constexpr Slices(const Extent& extent, std::int64_t elements) : extent_(extent), elements_(elements) {}

  constexpr std::int64_t count() const { return extent_.count() == 0 ? 1 : divided_up(extent_.count(), elements_); }
  constexpr Extent operator[](std::int64_t index) const {
    const std::int64_t first = extent_.first + index * elements_;
    return {first, std::min(first + elements_, extent_.last)};
  }

 private:
  Extent extent_;
  std::int64_t elements_;
};

/// Elements of a slice.
std::int64_t slice_elements(const Op& op, Sizes sizes);

}  // namespace pruned
