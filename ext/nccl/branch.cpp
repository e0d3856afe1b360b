#include "branch.h"

#include <algorithm>
#include <utility>

namespace pruned {
namespace {

bool has(std::span<const int> sandbox, int member) { return std::ranges::binary_search(sandbox, member); }

/// The first sandbox member on the way to the root; -1 if there is none.
int sandbox_above(const TreeShape& shape, std::span<const int> sandbox, int tree, int member) {
  int at = shape.parent(tree, member);
  while (at >= 0 && !has(sandbox, at)) {
    at = shape.parent(tree, at);
  }
  return at;
}

int first_virtual(std::span<const int> sandbox) {
  int member = 0;
  while (has(sandbox, member)) {
    ++member;
  }
  return member;
}

/// Goes through a branch from its top down.
class Walk {
 public:
  Walk(const TreeShape& shape, std::span<const int> sandbox, Branch& branch)
      : shape_(shape), sandbox_(sandbox), branch_(branch), carrier_(first_virtual(sandbox)) {}

  Sum visit(int member, int hops) {
    branch_.members.push_back({member, hops});
    branch_.carries = branch_.carries || member == carrier_;
    Sum sum;
    if (member == branch_.top) {
      sum.terms.emplace_back();
    }
    for (const int child : shape_.children(branch_.tree, member)) {
      if (has(sandbox_, child)) {
        branch_.below.push_back({child, hops + 1});
        sum.terms.push_back({.operand = static_cast<int>(branch_.below.size()) - 1});
      } else if (Sum part = visit(child, hops + 1); !nothing(part)) {
        sum.terms.push_back(std::move(part));
      }
    }
    return sum.terms.size() == 1 ? Sum(std::move(sum.terms.front())) : sum;
  }

 private:
  static bool nothing(const Sum& sum) { return sum.terms.empty() && sum.operand == Sum::kOwn; }

  const TreeShape& shape_;
  std::span<const int> sandbox_;
  Branch& branch_;
  int carrier_;
};

Branch branch_at(const TreeShape& shape, std::span<const int> sandbox, int tree, int top, int above, int slot) {
  Branch branch{.tree = tree, .top = top, .above = above, .slot = slot, .carries = false, .members = {}, .below = {},
                .sum = {}};
  Walk walk(shape, sandbox, branch);
  branch.sum = walk.visit(top, above >= 0 ? 1 : 0);
  return branch;
}

}  // namespace

int keeper(const TreeShape& shape, std::span<const int> sandbox, int tree, int member) {
  if (const int above = sandbox_above(shape, sandbox, tree, member); above >= 0) {
    return above;
  }
  return *std::ranges::find_if(sandbox, [&](int below) {
    return below != shape.root(tree) && sandbox_above(shape, sandbox, tree, below) < 0;
  });
}

std::vector<Branch> branches_of(const TreeShape& shape, std::span<const int> sandbox, int member) {
  std::vector<Branch> branches;
  for (int tree = 0; tree < kTrees; ++tree) {
    const std::vector<int>& children = shape.children(tree, member);
    for (std::size_t slot = 0; slot < children.size(); ++slot) {
      if (!has(sandbox, children[slot])) {
        branches.push_back(branch_at(shape, sandbox, tree, children[slot], member, static_cast<int>(slot)));
      }
    }
    const int root = shape.root(tree);
    if (!has(sandbox, root) && keeper(shape, sandbox, tree, root) == member) {
      branches.push_back(branch_at(shape, sandbox, tree, root, -1, Branch::kRootSlot));
    }
  }
  return branches;
}

}  // namespace pruned
