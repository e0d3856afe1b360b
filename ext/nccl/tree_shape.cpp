#include "tree_shape.h"

#include <algorithm>
#include <bit>
#include <map>

namespace pruned {
namespace {

/// The members of each node, nodes by their first member.
std::vector<std::vector<int>> chains_of(int size, std::span<const int> nodes) {
  std::vector<std::vector<int>> chains;
  std::map<int, std::size_t> known;
  for (int member = 0; member < size; ++member) {
    const int node = nodes.empty() ? member : nodes[member];
    const auto [place, is_new] = known.try_emplace(node, chains.size());
    if (is_new) {
      chains.emplace_back();
    }
    chains[place->second].push_back(member);
  }
  return chains;
}

/// Above node k > 0 of so many.
int node_above(int k, int count) {
  const int bit = k & -k;
  const int above = (k ^ bit) | (bit << 1);
  return above < count ? above : k ^ bit;
}

/// Which node stands in the second tree where node k stands in the first.
int second(int k, int count) { return count % 2 == 0 ? count - 1 - k : (k + 1) % count; }

}  // namespace

TreeShape::TreeShape(int size, std::span<const int> nodes) {
  places_.fill(std::vector<Place>(size));
  const auto chains = chains_of(size, nodes);
  const int count = static_cast<int>(chains.size());
  std::size_t longest = 1;
  for (const auto& chain : chains) {
    longest = std::max(longest, chain.size());
    for (std::size_t i = 1; i < chain.size(); ++i) {
      hang(0, chain[i], chain[i - 1]);
      hang(1, chain[i], chain[i - 1]);
    }
  }
  for (int k = 1; k < count; ++k) {
    const int above = node_above(k, count);
    hang(0, chains[k][0], chains[above][0]);
    hang(1, chains[second(k, count)][0], chains[second(above, count)][0]);
  }
  roots_ = {chains[0][0], chains[second(0, count)][0]};
  depth_ = std::bit_width(static_cast<unsigned>(count - 1)) + static_cast<int>(longest) - 1;
}

void TreeShape::hang(int tree, int child, int parent) {
  places_[tree][child].parent = parent;
  places_[tree][parent].children.push_back(child);
}

}  // namespace pruned
