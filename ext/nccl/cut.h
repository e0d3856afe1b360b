// How the data of a collective are cut: into loops, and each loop into chunks, one for each member.
//
// The sizes are those of NCCL's Simple protocol on one channel: a chunk is 4 slots of 512 KiB, in a chain 1 slot; the
// last loop of an all_reduce is what is left over N, rounded up to 16 bytes. prism/core/ring.py cuts alike, so that
// both make sums in one order. With several channels each would have a cut of its own part of the data.

#pragma once

#include "op.h"

namespace pruned {

/// Sizes in bytes; tests make them small.
struct Sizes {
  std::int64_t chunk = 4 * 512 * 1024;
  std::int64_t slice = 512 * 1024;  // what fits a slot; a chunk has at most 4, so that no ring fills its 8 slots
};

class Cut {
 public:
  explicit Cut(const Op& op, Sizes sizes = {});

  std::int64_t loops() const { return loops_; }

  /// The elements of the chunk of `owner` in this loop; may be empty. A chain has one chunk a loop, whoever asks.
  Extent chunk(std::int64_t loop, int owner) const;

  /// What all chunks before this loop weigh, and what one chunk of it does: the share of time that steps take.
  std::int64_t weight_before(std::int64_t loop) const { return loop * full_; }
  std::int64_t weight(std::int64_t loop) const;

 private:
  Extent within_block(const Extent& block, std::int64_t loop) const;

  Kind kind_;
  int size_;
  std::int64_t count_;
  Blocks blocks_;      // reduce_scatter, all_gather: each member's part of the data
  std::int64_t full_;  // elements of a chunk in all loops but the last
  std::int64_t loops_ = 0;
  std::int64_t last_ = 0;  // elements of a chunk in the last loop
};

/// The pieces of an extent that fit slots; an empty one has one empty piece, as a step is taken all the same.
class Slices {
 public:
  Slices(const Extent& extent, std::int64_t elements) : extent_(extent), elements_(elements) {}

  std::int64_t count() const { return extent_.count() == 0 ? 1 : (extent_.count() + elements_ - 1) / elements_; }
  Extent operator[](std::int64_t index) const;

 private:
  Extent extent_;
  std::int64_t elements_;
};

/// Elements of a slice.
std::int64_t slice_elements(const Op& op, Sizes sizes);

}  // namespace pruned
