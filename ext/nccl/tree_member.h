// A sandbox member's side of an all_reduce along two trees: sums go up, results come down, chunk by chunk.
//
// In each tree it adds what its children send to its own input, and sends that to its parent; what comes from the
// parent it keeps, and sends to its children. The root does both at once. The two trees, and the two directions, wait
// for nothing of each other.

#pragma once

#include <array>
#include <optional>
#include <vector>

#include "activity.h"
#include "ring_member.h"
#include "tree_cut.h"
#include "tree_links.h"

namespace pruned {

/// Where a member stands in a tree.
struct TreePlace {
  std::optional<UpperEdge> parent;
  std::vector<LowerEdge> children;
};

/// The places of the sandbox member whose ports these are.
std::array<TreePlace, kTrees> places_of(const TreeShape& shape, Ports& ports);

class TreeMember final : public Activity {
 public:
  /// `places` outlive it.
  TreeMember(const Op& op, Sizes sizes, const Buffers& buffers, const std::array<TreePlace, kTrees>& places);

  bool advance() override;
  bool done() const override;
  void verify() const override;

 private:
  bool send_up(int tree);
  bool take_up(const TreePlace& place, std::int64_t index, const Extent& chunk, std::byte* out);
  bool pass_down(int tree);
  void hand_down(const TreePlace& place, std::int64_t index, const std::byte* value, std::size_t size);
  void reduce(const TreePlace& place, std::int64_t index, const Extent& chunk, std::byte* out);
  const std::byte* own(const Extent& block);
  void count_sent(std::size_t size);
  void count_received(std::size_t size);

  TreeCut cut_;
  int size_;
  std::size_t item_;
  const Arithmetic& arithmetic_;
  Buffers buffers_;
  const std::array<TreePlace, kTrees>& places_;
  std::array<std::int64_t, kTrees> up_{};  // chunks that have gone up, or at the root: that are done
  std::array<std::int64_t, kTrees> down_{};
  std::vector<std::byte> scaled_;  // a block of the input of an average
};

}  // namespace pruned
