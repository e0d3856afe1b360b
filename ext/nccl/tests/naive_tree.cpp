#include "naive_tree.h"

#include <algorithm>
#include <functional>
#include <map>

namespace pruned::testing {
namespace {

void hang(NaiveTree& tree, int child, int parent) {
  tree.parent[child] = parent;
  tree.children[parent].push_back(child);
}

/// Hangs the nodes strictly between `first` and `first` + `span`, a power of two, below `above`: the middle one on top.
void halve(int first, int span, int count, int above, const std::function<void(int, int)>& hang_node) {
  if (span < 2) {
    return;
  }
  const int middle = first + span / 2;
  if (middle >= count) {
    halve(first, span / 2, count, above, hang_node);
    return;
  }
  hang_node(middle, above);
  halve(first, span / 2, count, middle, hang_node);
  halve(middle, span / 2, count, middle, hang_node);
}

}  // namespace

std::array<NaiveTree, 2> naive_trees(int size, const std::vector<int>& nodes) {
  std::vector<std::vector<int>> chains;
  std::map<int, int> chain_of;
  for (int r = 0; r < size; ++r) {
    const int node = nodes.empty() ? r : nodes[r];
    if (!chain_of.contains(node)) {
      chain_of[node] = static_cast<int>(chains.size());
      chains.emplace_back();
    }
    chains[chain_of[node]].push_back(r);
  }
  const int count = static_cast<int>(chains.size());
  std::array<NaiveTree, 2> trees;
  for (int t = 0; t < 2; ++t) {
    trees[t] = {std::vector<int>(size, -1), std::vector<std::vector<int>>(size)};
    for (const auto& chain : chains) {
      for (std::size_t i = 0; i + 1 < chain.size(); ++i) {
        hang(trees[t], chain[i + 1], chain[i]);
      }
    }
    const auto head = [&](int k) {
      const int node = t == 0 ? k : count % 2 == 0 ? count - 1 - k : k + 1 == count ? 0 : k + 1;
      return chains[node][0];
    };
    int span = 1;
    while (span < count) {
      span *= 2;
    }
    halve(0, span, count, 0, [&](int child, int above) { hang(trees[t], head(child), head(above)); });
  }
  return trees;
}

TreeRun run_trees_naively(const Op& op, Sizes sizes, const std::vector<int>& nodes, const std::vector<Bytes>& inputs) {
  TreeRun run{.trees = naive_trees(op.size, nodes), .up = {}, .down = {}, .result = {}};
  const auto item = static_cast<std::int64_t>(op.item());
  std::vector<Bytes> given;
  for (const Bytes& input : inputs) {
    given.push_back(brought(op, input));
  }
  std::int64_t half = (op.count + 1) / 2;
  while (half < op.count && half * item % 16 != 0) {
    ++half;
  }
  const std::int64_t full = std::max<std::int64_t>(sizes.slice / item, 1);
  for (int t = 0; t < 2; ++t) {
    const NaiveTree& tree = run.trees[t];
    run.up[t].resize(op.size);
    const std::int64_t end = t == 0 ? half : op.count;
    for (std::int64_t at = t == 0 ? 0 : half; at < end; at += full) {
      const std::int64_t stop = std::min(at + full, end);
      const std::function<Bytes(int)> sum = [&](int r) {
        Bytes total(given[r].begin() + at * item, given[r].begin() + stop * item);
        for (const int child : tree.children[r]) {
          total = added(op, total, sum(child));
        }
        run.up[t][r].push_back(total);
        return total;
      };
      const int root = static_cast<int>(std::ranges::find(tree.parent, -1) - tree.parent.begin());
      run.down[t].push_back(divided(op, sum(root)));
      run.result.insert(run.result.end(), run.down[t].back().begin(), run.down[t].back().end());
    }
  }
  return run;
}

}  // namespace pruned::testing
