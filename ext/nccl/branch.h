// What sandbox members leave of a tree when they are cut out of it: branches of virtual members.
//
// A branch hangs below one sandbox member, or has the root in it, and any number of sandbox members hang below the
// branch. Two things of it can be seen from outside: the sums that it sends up, made of what came from below and of
// what its members add, and the results that it hands down. So each branch is one party, whatever its size.

#pragma once

#include <span>
#include <vector>

#include "tree_shape.h"

namespace pruned {

/// A sum of operands, added left to right; one that has no terms is an operand itself.
struct Sum {
  static constexpr int kOwn = -1;

  int operand = kOwn;  // what came from below[operand], or what the branch's members add
  std::vector<Sum> terms = {};
};

struct Branch {
  /// A member, and how many hops lie between it and the end of the branch: the member above it, or the root.
  struct Place {
    int member;
    int hops;
  };

  int tree;
  int top;                     // its member that is nearest to the root
  int above;                   // the sandbox member that it hangs below; -1 if the root is in it
  int slot;                    // the how-manieth child of that member it is; kRootSlot if the root is in it
  bool carries;                // whether it has the first virtual member of the group, which carries what one has to
  std::vector<Place> members;  // the virtual ones
  std::vector<Place> below;    // the sandbox members that hang below it
  Sum sum;                     // in the tree's order, if only its top adds something

  static constexpr int kRootSlot = 3;
};

/// Who plays the branch of a virtual member: the sandbox member above it, or else the first of those below it.
int keeper(const TreeShape& shape, std::span<const int> sandbox, int tree, int member);

/// The branches that a sandbox member keeps: at most three below it and one with the root, of each tree.
std::vector<Branch> branches_of(const TreeShape& shape, std::span<const int> sandbox, int keeper);

}  // namespace pruned
