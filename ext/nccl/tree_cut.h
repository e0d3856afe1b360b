// How the data of an all_reduce are cut for two trees: a half for each, and each half into chunks of a slot.

#pragma once

#include <algorithm>
#include <array>

#include "cut.h"
#include "tree_shape.h"

namespace pruned {

class TreeCut {
 public:
  explicit TreeCut(const Op& op, Sizes sizes = {})
      : chunk_(std::max(sizes.slice / static_cast<std::int64_t>(op.item()), std::int64_t{1})) {
    // The first half is the larger one, in whole units of 16 bytes.
    const std::int64_t unit = std::max(std::int64_t{16} / static_cast<std::int64_t>(op.item()), std::int64_t{1});
    const std::int64_t half = std::min(((op.count + 1) / 2 + unit - 1) / unit * unit, op.count);
    halves_ = {Extent{0, half}, Extent{half, op.count}};
  }

  std::int64_t chunks(int tree) const { return (halves_[tree].count() + chunk_ - 1) / chunk_; }
  Extent chunk(int tree, std::int64_t index) const {
    const std::int64_t first = halves_[tree].first + index * chunk_;
    return {first, std::min(first + chunk_, halves_[tree].last)};
  }
  /// The elements of a whole chunk.
  std::int64_t chunk_elements() const { return chunk_; }

 private:
  std::int64_t chunk_;
  std::array<Extent, kTrees> halves_;
};

}  // namespace pruned
