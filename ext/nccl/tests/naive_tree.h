// An all_reduce of N ranks along two trees, all of them real: what each rank sends on each edge, and what all have.
//
// Written without the engine's shapes and arithmetic: the binary tree as halves of halves, sums by recursion.

#pragma once

#include <array>
#include <vector>

#include "naive_ring.h"

namespace pruned::testing {

struct NaiveTree {
  std::vector<int> parent;                 // -1 of the root
  std::vector<std::vector<int>> children;  // in the order in which they are added
};

/// `nodes` has the node of each rank; empty: each rank is one.
std::array<NaiveTree, 2> naive_trees(int size, const std::vector<int>& nodes);

struct TreeRun {
  std::array<NaiveTree, 2> trees;
  std::array<std::vector<std::vector<Bytes>>, 2> up;  // by tree, rank and chunk: what it sends to its parent
  std::array<std::vector<Bytes>, 2> down;             // by tree and chunk: the result
  Bytes result;
};

TreeRun run_trees_naively(const Op& op, Sizes sizes, const std::vector<int>& nodes, const std::vector<Bytes>& inputs);

}  // namespace pruned::testing
