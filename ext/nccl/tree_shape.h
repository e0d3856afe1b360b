// The two trees of an all_reduce, each of which carries half of the data: over the nodes a binary tree, inside of each
// node a chain.
//
// In the binary tree of K nodes node 0 is the root, and odd nodes are leaves. With b the lowest bit that is set in k,
// node k hangs below the one node of k - b and k + b that is a multiple of 2b but not of 4b, or, where that is outside,
// below k - b. The second tree is the first in a mirror if K is even, or moved on by a node if it is odd; so a node
// that has two children in one is a leaf in the other. The first member of a node is in the binary tree, each next one
// hangs below the one before. That is NCCL's shape, where all of a node's traffic goes through one rank.

#pragma once

#include <array>
#include <span>
#include <vector>

namespace pruned {

constexpr int kTrees = 2;

class TreeShape {
 public:
  /// `nodes` has the node of each member; empty: each member is a node of its own.
  TreeShape(int size, std::span<const int> nodes);

  int size() const { return static_cast<int>(places_[0].size()); }
  /// -1 of the root.
  int parent(int tree, int member) const { return places_[tree][member].parent; }
  /// At most three, in the order in which their sums are added: the chain's first, then the binary tree's.
  const std::vector<int>& children(int tree, int member) const { return places_[tree][member].children; }
  int root(int tree) const { return roots_[tree]; }
  /// How many hops a sum takes at most to get to a root.
  int depth() const { return depth_; }

 private:
  struct Place {
    int parent = -1;
    std::vector<int> children;
  };

  void hang(int tree, int child, int parent);

  std::array<std::vector<Place>, kTrees> places_;
  std::array<int, kTrees> roots_{};
  int depth_ = 0;
};

}  // namespace pruned
