// Trees: every chunk that a member or a branch sends is what N ranks would send, in all modes of contribution.

#include <algorithm>
#include <optional>

#include "cast.h"
#include "check.h"
#include "edges.h"
#include "tests.h"

namespace pruned::testing {
namespace {

/// An operation, its inputs, and what the trees of N ranks make of them.
struct TreeCase {
  const Group& group;
  Op op;
  std::vector<Bytes> inputs;
  TreeRun run;

  TreeCase(const Group& of, const Op& what, std::vector<Bytes> given)
      : group(of), op(what), inputs(std::move(given)), run(run_trees_naively(op, of.sizes, of.nodes, inputs)) {}

  std::string text(const std::string& mode, int rank) const {
    return mode + ", nodes of " + std::to_string(std::ranges::count(group.nodes, 0)) + ", " +
           describe(op, group.sandbox) + ", rank " + std::to_string(rank);
  }
};

void check_member(const TreeCase& c, int rank, bool in_place) {
  Ports ports = c.group.ports(Party::Role::kMember, rank);
  const auto places = places_of(TreeShape(c.op.size, c.group.nodes), ports);
  Bytes input = c.inputs[rank], output(c.run.result.size());
  Edges edges(c.group);
  std::int64_t moves = 0;
  for (int t = 0; t < 2; ++t) {
    const NaiveTree& tree = c.run.trees[t];
    for (const int child : tree.children[rank]) {
      edges.feed(t, child, true, c.run.up[t][child]);
      edges.take(t, child, false, c.run.down[t]);
    }
    if (tree.parent[rank] >= 0) {
      edges.take(t, rank, true, c.run.up[t][rank]);
      edges.feed(t, rank, false, c.run.down[t]);
    }
    moves += static_cast<std::int64_t>(tree.children[rank].size() + (tree.parent[rank] >= 0 ? 1 : 0)) *
             std::ssize(c.run.down[t]);
  }
  const Buffers buffers{.input = input.data(), .output = in_place ? input.data() : output.data()};
  TreeMember member(c.op, c.group.sizes, buffers, places);
  const std::string what = c.text(in_place ? "in place" : "member", rank);
  edges.run(member, what);
  CHECK((in_place ? input : output) == c.run.result, what + ": output");
  CHECK(member.moved().sends == moves && member.moved().receives == moves, what + ": what it moved");
}

struct Brought {
  std::string mode;
  Contribution contribution;
  const Bytes* replica = nullptr;
  bool settles = false;
};

/// All branches of a keeper: what goes out of them, given what the run has on their edges.
void check_branches(const TreeCase& c, int keeper, const Brought& brought) {
  Ports ports = c.group.ports(Party::Role::kBranches, keeper);
  const TreeShape shape(c.op.size, c.group.nodes);
  const std::vector<Branch> branches = branches_of(shape, c.group.sandbox, keeper);
  Edges edges(c.group);
  for (const Branch& branch : branches) {
    for (const auto& [rank, hops] : branch.below) {
      edges.feed(branch.tree, rank, true, c.run.up[branch.tree][rank]);
      edges.take(branch.tree, rank, false, c.run.down[branch.tree]);
    }
    if (branch.above >= 0) {
      const auto& sums = brought.settles ? c.run.down[branch.tree] : c.run.up[branch.tree][branch.top];
      edges.take(branch.tree, branch.top, true, sums, brought.settles);
      edges.feed(branch.tree, branch.top, false, c.run.down[branch.tree]);
    }
  }
  std::shared_ptr<Mapping> input;
  if (brought.replica != nullptr) {
    input = c.group.directory->open("input", std::max<std::size_t>(brought.replica->size(), 1));
    std::ranges::copy(*brought.replica, input->data());
  }
  Pool pool;
  VirtualBranches activity(branches, c.op, c.group.sizes, shape, brought.contribution, std::nullopt, input, ports,
                           pool);
  edges.run(activity, c.text(brought.mode, keeper));
}

/// By the operation's elements: what each branch of the keeper in this slot sends up, or what its members add.
Bytes by_slot(const TreeCase& c, int keeper, int slot, bool sums_of_members) {
  Bytes all(c.run.result.size());
  for (const Branch& branch : branches_of(TreeShape(c.op.size, c.group.nodes), c.group.sandbox, keeper)) {
    if (branch.slot != slot) {
      continue;
    }
    const TreeCut cut(c.op, c.group.sizes);
    const auto item = static_cast<std::int64_t>(c.op.item());
    for (std::int64_t k = 0; k < cut.chunks(branch.tree); ++k) {
      const Extent chunk = cut.chunk(branch.tree, k);
      Bytes total;
      for (const auto& [rank, hops] : branch.members) {
        const Bytes whole = brought(c.op, c.inputs[rank]);
        const Bytes own(whole.begin() + chunk.first * item, whole.begin() + chunk.last * item);
        total = total.empty() ? own : added(c.op, total, own);
      }
      const Bytes& piece = sums_of_members ? total : c.run.up[branch.tree][branch.top][k];
      std::ranges::copy(piece, all.begin() + chunk.first * item);
    }
  }
  return all;
}

void check_exact(const TreeCase& c) {
  for (const int keeper : c.group.sandbox) {
    check_branches(c, keeper, {"settled", {.mode = Mode::kExact, .final = c.run.result.data()}, nullptr, true});
    std::vector<Bytes> sums;
    Contribution exact{.mode = Mode::kExact, .final = c.run.result.data()};
    for (int slot = 0; slot < 3; ++slot) {
      sums.push_back(by_slot(c, keeper, slot, false));
      exact.branches[slot] = sums.back().data();
    }
    check_branches(c, keeper, {"exact", exact});
  }
}

/// In each tree the top of one branch carries `rest`, or nobody does.
void check_left(const TreeCase& c, bool carried) {
  std::vector<Bytes> inputs = c.inputs;
  const TreeShape shape(c.op.size, c.group.nodes);
  const Bytes rest = c.inputs[0];
  for (int r = 0; r < c.op.size; ++r) {
    if (!std::ranges::binary_search(c.group.sandbox, r)) {
      inputs[r] = identities(c.op, inputs[r].size());
    }
  }
  const TreeCut cut(c.op, c.group.sizes);
  for (const int keeper : c.group.sandbox) {
    for (const Branch& branch : branches_of(shape, c.group.sandbox, keeper)) {
      for (std::int64_t k = 0; carried && branch.carries && k < cut.chunks(branch.tree); ++k) {
        const Extent chunk = cut.chunk(branch.tree, k);
        const auto item = static_cast<std::int64_t>(c.op.item());
        std::copy(rest.begin() + chunk.first * item, rest.begin() + chunk.last * item,
                  inputs[branch.top].begin() + chunk.first * item);
      }
    }
  }
  const Bytes sum = brought(c.op, rest);
  const TreeCase live(c.group, c.op, std::move(inputs));
  for (const int keeper : c.group.sandbox) {
    check_branches(live, keeper, {carried ? "left" : "zeros", {.head = carried ? sum.data() : nullptr}});
  }
}

void check_prefolded(const TreeCase& c) {
  for (const int keeper : c.group.sandbox) {
    std::vector<Bytes> sums;
    Contribution folded{.mode = Mode::kPrefolded};
    for (int slot = 0; slot < 4; ++slot) {
      sums.push_back(by_slot(c, keeper, slot, true));
      folded.branches[slot] = sums.back().data();
    }
    check_branches(c, keeper, {"prefolded", folded});
  }
}

void check_replicas(const TreeCase& c) {
  std::vector<Bytes> inputs = c.inputs;
  for (const int keeper : c.group.sandbox) {
    for (const Branch& branch : branches_of(TreeShape(c.op.size, c.group.nodes), c.group.sandbox, keeper)) {
      const TreeCut cut(c.op, c.group.sizes);
      const auto item = static_cast<std::int64_t>(c.op.item());
      for (const auto& [rank, hops] : branch.members) {
        for (std::int64_t k = 0; k < cut.chunks(branch.tree); ++k) {
          const Extent chunk = cut.chunk(branch.tree, k);
          std::copy(c.inputs[keeper].begin() + chunk.first * item, c.inputs[keeper].begin() + chunk.last * item,
                    inputs[rank].begin() + chunk.first * item);
        }
      }
    }
  }
  const TreeCase live(c.group, c.op, std::move(inputs));
  for (const int keeper : c.group.sandbox) {
    check_branches(live, keeper, {"replicas", {.mode = Mode::kReplicas}, &c.inputs[keeper]});
  }
}

void check_op(const Op& op, const std::vector<int>& sandbox, int node) {
  const TemporaryDirectory directory;
  Group group{.directory = std::make_shared<Directory>(directory.path()), .size = op.size, .sandbox = sandbox};
  for (int r = 0; node > 1 && r < op.size; ++r) {
    group.nodes.push_back(r / node);
  }
  const TreeCase c(group, op, random_inputs(op, 7));
  for (const int rank : sandbox) {
    check_member(c, rank, false);
    check_member(c, rank, true);
  }
  if (static_cast<int>(sandbox.size()) == op.size) {
    return;
  }
  check_exact(c);
  const bool ordered = is_float(op.dtype) && op.reduce != Reduce::kMax;
  // An integer average divides each sum once, which is not what its members' inputs would be if one carried all.
  check_left(c, true);
  check_left(c, false);
  if (!ordered) {
    check_prefolded(c);
    check_replicas(c);
  }
}

}  // namespace

void test_trees() {
  for (int size = 1; size <= 16; ++size) {
    for (const std::vector<int>& sandbox : sandboxes(size)) {
      const bool odd = (size + static_cast<int>(sandbox.size())) % 2 == 1;
      for (const int node : {1, 3}) {
        const Op op{.kind = Kind::kAllReduce,
                    .dtype = odd == (node == 1) ? Dtype::kInt32 : Dtype::kFloat32,
                    .reduce = Reduce::kSum,
                    .tree = true,
                    .size = size,
                    .count = odd ? 83 : 9};
        check_op(op, sandbox, node);
      }
    }
  }
  for (const Dtype dtype : {Dtype::kUint8, Dtype::kInt8, Dtype::kInt16, Dtype::kInt64, Dtype::kFloat16,
                            Dtype::kBfloat16, Dtype::kFloat64, Dtype::kBool, Dtype::kUint16, Dtype::kUint32,
                            Dtype::kUint64}) {
    for (const Reduce reduce : {Reduce::kSum, Reduce::kMax, Reduce::kProduct, Reduce::kAvg, Reduce::kBxor}) {
      const bool averages_truth = dtype == Dtype::kBool && reduce == Reduce::kAvg;
      if (!averages_truth && !(is_float(dtype) && reduce == Reduce::kBxor)) {
        check_op({.kind = Kind::kAllReduce, .dtype = dtype, .reduce = reduce, .tree = true, .size = 9, .count = 150},
                 {1, 4, 8}, 2);
      }
    }
  }
  check_op({.kind = Kind::kAllReduce, .dtype = Dtype::kFloat32, .reduce = Reduce::kSum, .tree = true, .size = 6}, {2},
           1);
}

}  // namespace pruned::testing
