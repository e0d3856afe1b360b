// When branches send: the closed form against the recursion over all members of a tree.

#include <algorithm>
#include <functional>
#include <random>

#include "../tree_pace.h"
#include "check.h"
#include "harness.h"
#include "naive_tree.h"
#include "tests.h"

namespace pruned::testing {
namespace {

using Column = std::vector<std::int64_t>;  // by chunk

/// A tree of N ranks in time; those of the sandbox hand over when they will, all others as soon as they can.
struct Timed {
  const NaiveTree& tree;
  const std::vector<int>& sandbox;
  Column posts;              // by rank
  std::vector<Column> up;    // by sandbox rank: when it hands over each chunk to its parent
  std::vector<Column> down;  // and to its children
  std::int64_t alpha, tau;
  std::int64_t chunks;

  bool real(int r) const { return std::ranges::binary_search(sandbox, r); }

  Column sent(const Column& given) const {
    Column ends;
    for (const std::int64_t at : given) {
      ends.push_back((ends.empty() ? at : std::max(at, ends.back())) + tau);
    }
    return ends;
  }

  /// When each sum is complete at a virtual rank.
  Column complete(int r) const {
    Column at(chunks, posts[r]);
    for (const int child : tree.children[r]) {
      const Column ends = sent(real(child) ? up[child] : complete(child));
      for (std::int64_t k = 0; k < chunks; ++k) {
        at[k] = std::max(at[k], ends[k] + alpha);
      }
    }
    return at;
  }

  /// When a rank has each result from its parent.
  Column results(int r) const {
    const int parent = tree.parent[r];
    const Column given = real(parent) ? down[parent] : tree.parent[parent] < 0 ? complete(parent) : results(parent);
    Column at = sent(given);
    std::ranges::for_each(at, [&](std::int64_t& time) { time += alpha; });
    return at;
  }
};

void check_branch(const Branch& branch, int depth, const Timed& timed) {
  const std::int64_t hops = 2 * depth;
  const Times times{
      .posts = timed.posts, .latency = timed.alpha * hops, .transfer = timed.tau * (hops + timed.chunks - 1)};
  BranchPace pace(branch, depth, timed.chunks, times);
  const Column sums = timed.sent(timed.complete(branch.top));
  for (std::int64_t k = 0; k < timed.chunks; ++k) {
    Column below;
    for (std::size_t i = 0; i < branch.below.size(); ++i) {
      below.push_back(pace.arrived(static_cast<int>(i), k, timed.up[branch.below[i].member][k]));
    }
    const std::int64_t sum = pace.summed(below);
    std::int64_t result = sum;
    if (branch.above >= 0) {
      CHECK(pace.there(sum, 0, k) == sums[k] + timed.alpha, "when the member above has a sum");
      result = pace.arrived(BranchPace::kAbove, k, timed.down[branch.above][k]);
    }
    for (const auto& [member, way] : branch.below) {
      CHECK(pace.there(result, way, k) == timed.results(member)[k], "when a member below has a result");
    }
  }
}

void check_random(int size, const std::vector<int>& sandbox, int node, std::mt19937& random) {
  std::vector<int> nodes;
  for (int r = 0; r < size; ++r) {
    nodes.push_back(r / node);
  }
  const auto trees = naive_trees(size, nodes);
  const TreeShape shape(size, nodes);
  const auto number = [&](std::int64_t most) { return std::uniform_int_distribution<std::int64_t>(0, most)(random); };
  const std::int64_t chunks = 1 + number(4);
  for (int t = 0; t < kTrees; ++t) {
    Timed timed{trees[t], sandbox, {}, {}, {}, number(100), number(50), chunks};
    for (int r = 0; r < size; ++r) {
      timed.posts.push_back(number(1000));
      for (auto* column : {&timed.up, &timed.down}) {
        column->emplace_back();
        for (std::int64_t k = 0, at = 0; k < chunks; ++k) {
          column->back().push_back(at += number(500));
        }
      }
    }
    for (const int keeper : sandbox) {
      for (const Branch& branch : branches_of(shape, sandbox, keeper)) {
        if (branch.tree == t) {
          check_branch(branch, shape.depth(), timed);
        }
      }
    }
  }
}

/// With equal posts, and sandbox members that lose no time, the last member has the last result at the cost's end.
void check_total() {
  for (const int size : {2, 3, 8, 16, 64}) {
    const auto trees = naive_trees(size, {});
    const TreeShape shape(size, {});
    const std::int64_t alpha = 7, tau = 3, chunks = 4;
    const std::vector<int> nobody;
    const Timed timed{trees[0], nobody, Column(size, 1000), {}, {}, alpha, tau, chunks};
    std::int64_t last = 0;
    for (int r = 1; r < size; ++r) {
      last = std::max(last, timed.results(r).back());
    }
    const std::int64_t cost = 2 * shape.depth() * (alpha + tau) + (chunks - 1) * tau;
    CHECK(last == 1000 + cost, "latency and transfer after the posts");
  }
}

}  // namespace

void test_tree_pace() {
  std::mt19937 random(3);
  for (int size = 2; size <= 16; ++size) {
    for (const std::vector<int>& sandbox : sandboxes(size)) {
      check_random(size, sandbox, 1 + size % 3, random);
    }
  }
  check_total();
}

}  // namespace pruned::testing
