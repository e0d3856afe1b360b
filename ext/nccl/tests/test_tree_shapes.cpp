// The shapes of the two trees, and the branches that are left of them without the sandbox members.

#include <algorithm>
#include <string>

#include "cast.h"
#include "check.h"
#include "tests.h"

namespace pruned::testing {
namespace {

void check_shapes() {
  const TreeShape eight(8, {});
  CHECK(eight.root(0) == 0 && eight.children(0, 0) == std::vector{4}, "the root of eight has one child");
  CHECK(eight.children(0, 4) == (std::vector{2, 6}) && eight.children(0, 1).empty(), "halves, and odd leaves");
  CHECK(eight.root(1) == 7 && eight.children(1, 3) == (std::vector{5, 1}), "the second tree is a mirror");
  CHECK(TreeShape(5, {}).children(1, 0) == std::vector{3}, "of five, it is moved on by one");
  CHECK(eight.depth() == 3 && TreeShape(9, {}).depth() == 4 && TreeShape(1, {}).depth() == 0, "depths");
  const std::vector<int> pairs{0, 0, 1, 1, 2, 2};
  const TreeShape six(6, pairs);
  CHECK(six.children(0, 0) == (std::vector{1, 4}) && six.parent(0, 3) == 2 && six.depth() == 3, "chains inside nodes");
  for (int size = 1; size <= 70; ++size) {
    for (const int node : {1, 2, 3, 8, 100}) {
      std::vector<int> nodes;
      for (int r = 0; r < size; ++r) {
        nodes.push_back(r / node);
      }
      const TreeShape shape(size, nodes);
      const auto naive = naive_trees(size, nodes);
      for (int t = 0; t < 2; ++t) {
        for (int r = 0; r < size; ++r) {
          const bool same = shape.parent(t, r) == naive[t].parent[r] && shape.children(t, r) == naive[t].children[r];
          CHECK(same, "the shape of " + std::to_string(size) + " by " + std::to_string(node));
          int hops = 0;
          for (int at = r; shape.parent(t, at) >= 0; at = shape.parent(t, at)) {
            ++hops;
          }
          CHECK(hops <= shape.depth(), "no deeper than it says");
        }
      }
    }
  }
}

/// Each virtual member is in one branch of each tree, and whatever the sandbox is, one carries.
void check_partition() {
  for (int size = 2; size <= 40; ++size) {
    for (const std::vector<int>& sandbox : sandboxes(size)) {
      const TreeShape shape(size, {});
      for (int t = 0; t < 2; ++t) {
        std::vector<int> seen(size);
        int carriers = 0;
        for (const int rank : sandbox) {
          for (const Branch& branch : branches_of(shape, sandbox, rank)) {
            carriers += branch.tree == t && branch.carries ? 1 : 0;
            for (const auto& [virtual_rank, hops] : branch.members) {
              seen[virtual_rank] += branch.tree == t ? 1 : 0;
              CHECK(keeper(shape, sandbox, branch.tree, virtual_rank) == rank, "its keeper");
            }
          }
        }
        for (int r = 0; r < size; ++r) {
          CHECK(seen[r] == (std::ranges::binary_search(sandbox, r) ? 0 : 1), "in one branch");
        }
        CHECK(carriers == (static_cast<int>(sandbox.size()) < size ? 1 : 0), "one carries");
      }
    }
  }
}

}  // namespace

void test_tree_shapes() {
  check_shapes();
  check_partition();
}

}  // namespace pruned::testing
