// Arcs: every chunk that they send is what the last of their members would, in all modes of contribution.
//
// The ring that they are held to has the inputs that the mode says. Where a mode folds in another order than the ring,
// integers make the order of no account.

#include <optional>

#include "../virtual_arc.h"
#include "check.h"
#include "harness.h"
#include "tests.h"

namespace pruned::testing {
namespace {

/// The virtual members of an operation under test, and the ring of N ranks that they stand for.
struct Case {
  const Group& group;
  Op op;
  std::vector<Bytes> inputs;

  std::int64_t item() const { return static_cast<std::int64_t>(op.item()); }
  std::size_t data_bytes() const {
    const std::int64_t elements = op.kind == Kind::kReduceScatter ? op.sent_blocks().total()
                                  : op.kind == Kind::kAllGather   ? op.received_blocks().total()
                                                                  : op.count;
    return static_cast<std::size_t>(elements * item());
  }
};

/// What it takes for the arc to be done with this contribution, against the ring's run.
void check_arc(const Case& c, const Arc& arc, const Contribution& contribution, const Run& run,
               const std::string& mode) {
  Ports ports = c.group.ports(Party::Role::kArc, arc.after);
  const Party a{Party::Role::kMember, arc.after}, b{Party::Role::kMember, arc.before()};
  Neighbours neighbours(c.group, c.op, a, ports.self(), b);
  Pool pool;
  std::shared_ptr<Mapping> input;
  if (contribution.mode == Mode::kReplicas) {
    const Bytes& published = c.inputs[arc.after];
    input = c.group.directory->open("input", std::max<std::size_t>(published.size(), 1));
    std::copy(published.begin(), published.end(), input->data());
  }
  VirtualArc activity(c.op, c.group.sizes, arc, contribution, std::nullopt, input, ports.from(a), ports.to(b), pool);

  const ArcPlan plan(c.op, c.group.sizes, arc);
  const auto nothing = std::vector<Bytes>{};
  const int last = arc.member(arc.members - 1);
  const std::vector<Bytes>& given = plan.receives() > 0 ? run.sent[arc.after] : nothing;
  const std::vector<Bytes>& sent = plan.sends() > 0 ? run.sent[last] : nothing;
  const std::string what = mode + ", " + describe(c.op, c.group.sandbox) + ", after " + std::to_string(arc.after);
  CHECK(neighbours.run(activity, given, sent) == sent, what + ": sends");
  CHECK(activity.moved().receives == std::ssize(given), what + ": receives");
}

/// Calls `body` with each arc, and whether it is the first.
template <class Body>
void for_arcs(const Case& c, Body body) {
  bool first = true;
  for (const int after : c.group.sandbox) {
    if (const auto arc = arc_after(c.op.size, c.group.sandbox, after)) {
      body(*arc, first);
      first = false;
    }
  }
}

/// The result, by the operation's elements.
Bytes result(const Case& c, const Run& run) {
  if (c.op.kind == Kind::kReduce) {
    return run.outputs[c.op.root];
  }
  if (c.op.kind != Kind::kReduceScatter) {
    return run.outputs[0];
  }
  Bytes all;
  for (const Bytes& shard : run.outputs) {
    all.insert(all.end(), shard.begin(), shard.end());
  }
  return all;
}

/// For each chunk the fold of `places` members from `first` on, in the order of the ring; none if there are none.
template <class First, class Places>
Bytes partial(const Case& c, const Run& run, First first, Places places) {
  Bytes all(c.data_bytes());
  for (const auto& [extent, owner] : run.chunks) {
    const auto from = extent.first * c.item(), to = extent.last * c.item();
    Bytes total;
    for (int i = 0; i < places(owner); ++i) {
      const Bytes whole = brought(c.op, c.inputs[(first(owner) + i) % c.op.size]);
      const Bytes own(whole.begin() + from, whole.begin() + to);
      total = i == 0 ? own : added(c.op, total, own);
    }
    std::copy(total.begin(), total.end(), all.begin() + from);
  }
  return all;
}

int distance(int from, int to, int size) { return ((to - from) % size + size) % size; }

void check_exact(const Case& c) {
  const Run run = run_naively(c.op, c.group.sizes, c.inputs);
  const Bytes final = result(c, run);
  for_arcs(c, [&](const Arc& arc, bool) {
    Bytes before;
    if (reduces(c.op.kind)) {
      const int size = c.op.size, b = arc.before();
      before = partial(
          c, run, [&](int owner) { return (owner + 1) % size; },
          [&](int owner) { return distance(owner + 1, b, size); });
    }
    check_arc(c, arc, {.mode = Mode::kExact, .head = before.data(), .final = final.data()}, run, "exact");
  });
}

/// The first arc's last member carries `rest`, or nobody does.
void check_left(Case c, bool carried) {
  Bytes rest;
  for_arcs(c, [&](const Arc& arc, bool first) {
    for (int i = 0; i < arc.members; ++i) {
      const int member = arc.member(i);
      if (reduces(c.op.kind) && !(first && carried && i == arc.members - 1)) {
        c.inputs[member] = identities(c.op, c.inputs[member].size());
      } else if (!reduces(c.op.kind) && !carried) {
        c.inputs[member].assign(c.inputs[member].size(), std::byte{0});
      } else if (reduces(c.op.kind)) {
        rest = brought(c.op, c.inputs[member]);
      }
    }
  });
  const Run run = run_naively(c.op, c.group.sizes, c.inputs);
  const Bytes final = result(c, run);
  for_arcs(c, [&](const Arc& arc, bool first) {
    const Contribution contribution{.mode = Mode::kLeft,
                                    .head = first && carried ? rest.data() : nullptr,
                                    .final = carried ? final.data() : nullptr};
    check_arc(c, arc, contribution, run, carried ? "left" : "zeros");
  });
}

void check_prefolded(const Case& c) {
  const Run run = run_naively(c.op, c.group.sizes, c.inputs);
  const Bytes final = result(c, run);
  const int size = c.op.size;
  for_arcs(c, [&](const Arc& arc, bool) {
    const auto all_in_arc = [&](int owner) { return distance(owner + 1, arc.before(), size) <= arc.members; };
    const Bytes head = partial(
        c, run, [&](int owner) { return (owner + 1) % size; },
        [&](int owner) { return all_in_arc(owner) ? distance(owner + 1, arc.before(), size) : 0; });
    const Bytes tail = partial(
        c, run, [&](int) { return arc.member(0); },
        [&](int owner) { return owner == arc.after ? 0 : std::min(distance(arc.after, owner, size), arc.members); });
    const Contribution contribution{
        .mode = Mode::kPrefolded, .head = head.data(), .tail = tail.data(), .final = final.data()};
    check_arc(c, arc, contribution, run, "prefolded");
  });
}

void check_replicas(Case c) {
  for_arcs(c, [&](const Arc& arc, bool) {
    for (int i = 0; i < arc.members; ++i) {
      c.inputs[arc.member(i)] = c.inputs[arc.after];
    }
  });
  const Run run = run_naively(c.op, c.group.sizes, c.inputs);
  for_arcs(c, [&](const Arc& arc, bool) { check_arc(c, arc, {.mode = Mode::kReplicas}, run, "replicas"); });
}

void check_modes(const Op& op, const std::vector<int>& sandbox) {
  const TemporaryDirectory directory;
  const Group group{.directory = std::make_shared<Directory>(directory.path()), .size = op.size, .sandbox = sandbox};
  const Case c{.group = group, .op = op, .inputs = random_inputs(op, 11)};
  check_exact(c);
  check_left(c, true);
  check_left(c, false);
  const bool ordered = reduces(op.kind) && is_float(op.dtype) && op.reduce != Reduce::kMax;
  if (!ordered) {
    if (reduces(op.kind)) {
      check_prefolded(c);
    }
    check_replicas(c);
  }
}

}  // namespace

void test_arcs() {
  for (int size = 2; size <= 16; ++size) {
    for (const std::vector<int>& sandbox : sandboxes(size)) {
      const bool odd = (size + static_cast<int>(sandbox.size())) % 2 == 1;
      const std::int64_t count = odd ? 2 * 16 * size + 3 : size - 1;
      Op op{.kind = Kind::kAllReduce,
            .dtype = odd ? Dtype::kInt32 : Dtype::kFloat32,
            .reduce = Reduce::kSum,
            .size = size,
            .count = count};
      check_modes(op, sandbox);
      op.dtype = odd ? Dtype::kFloat32 : Dtype::kInt32;
      op.kind = Kind::kReduce;
      op.root = (sandbox[0] + 1) % size;
      check_modes(op, sandbox);
      op.root = sandbox.back();
      check_modes(op, sandbox);
      op.kind = Kind::kBroadcast;
      check_modes(op, sandbox);
      op.root = (sandbox.back() + size - 1) % size;
      check_modes(op, sandbox);
      op.kind = Kind::kAllGather;
      check_modes(op, sandbox);
      op.kind = Kind::kReduceScatter;
      op.count = count * size;
      check_modes(op, sandbox);
    }
  }
  for (const Dtype dtype :
       {Dtype::kBfloat16, Dtype::kFloat16, Dtype::kFloat64, Dtype::kInt64, Dtype::kUint8, Dtype::kBool}) {
    for (const Reduce reduce : {Reduce::kSum, Reduce::kMax, Reduce::kProduct, Reduce::kAvg, Reduce::kBxor}) {
      const bool averages_truth = dtype == Dtype::kBool && reduce == Reduce::kAvg;
      if (averages_truth || (is_float(dtype) && reduce == Reduce::kBxor)) {
        continue;
      }
      const Op op{.kind = Kind::kAllReduce, .dtype = dtype, .reduce = reduce, .size = 7, .count = 500};
      check_modes(op, {1, 4});
      Op scatter = op;
      scatter.kind = Kind::kReduceScatter;
      scatter.sends = {0, 90, 3, 100, 1, 0, 51};
      scatter.count = 245;
      check_modes(scatter, {0, 1, 4});
    }
  }
}

}  // namespace pruned::testing
