// All parties of a group in one process: what each does in an operation, and whether it came out right.

#pragma once

#include <map>
#include <memory>
#include <vector>

#include "../tree_member.h"
#include "../virtual_branches.h"
#include "harness.h"
#include "naive_tree.h"

namespace pruned::testing {

/// An operation with everybody's inputs, what the virtual members bring (mode exact), and the right results.
struct Scene {
  Scene(const Group& group, const Op& op, unsigned seed);

  Op op;
  std::vector<Bytes> inputs;
  std::vector<Bytes> expected;
  std::vector<Bytes> outputs;
  std::map<int, Bytes> before;  // by sandbox member
  Bytes final;                  // the result by the operation's elements

  /// Whether all sandbox members have their results.
  void check_outputs(const Group& group) const;
};

/// One party: its FIFOs, and its activity in a scene. Members, arcs, peers and branches of each sandbox member.
class Actor {
 public:
  Actor(const Group& group, Party party);

  /// Null if the party has no part in it.
  std::unique_ptr<Activity> act(Scene& scene);
  Ports& ports() { return ports_; }

 private:
  std::unique_ptr<Activity> member(Scene& scene);
  std::unique_ptr<Activity> arc(const Scene& scene);
  std::unique_ptr<Activity> branches(const Scene& scene);

  Sizes sizes_;
  Party party_;
  Ports ports_;
  Pool pool_;
  TreeShape shape_;
  std::vector<Branch> branches_;
  std::array<TreePlace, kTrees> places_;
};

/// All parties of a group.
std::vector<std::unique_ptr<Actor>> cast_of(const Group& group);

/// One operation of each kind, the all_reduce along a ring and along trees, of about so many elements a member.
std::vector<Op> all_kinds(int size, std::int64_t count, Dtype dtype);

}  // namespace pruned::testing
