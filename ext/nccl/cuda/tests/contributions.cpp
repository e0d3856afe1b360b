#include "contributions.h"

#include <algorithm>

namespace pruned::device::testing {

using pruned::testing::added;
using pruned::testing::identities;
using pruned::testing::Run;

namespace {

int distance(int from, int to, int size) { return wrapped(to - from, size); }

/// The result, by the operation's elements.
Bytes result(const Op& op, const Run& run) {
  if (op.kind == Kind::kReduce) {
    return run.outputs[op.root];
  }
  if (op.kind == Kind::kBroadcast) {
    return run.outputs[(op.root + 1) % op.size];
  }
  if (op.kind != Kind::kReduceScatter) {
    return run.outputs[0];
  }
  Bytes all;
  for (const Bytes& shard : run.outputs) {
    all.insert(all.end(), shard.begin(), shard.end());
  }
  return all;
}

/// For each chunk the fold of `places` members from `first` on, in the order of the ring; zeros if there are none.
template <class First, class Places>
Bytes partial(const Act& act, const Run& run, std::size_t bytes, First first, Places places) {
  Bytes all(bytes);
  const auto item = static_cast<std::int64_t>(act.op.item());
  for (const auto& [extent, owner] : run.chunks) {
    const auto from = extent.first * item, to = extent.last * item;
    Bytes total;
    for (int i = 0; i < places(owner); ++i) {
      const Bytes whole = pruned::testing::brought(act.op, act.inputs[(first(owner) + i) % act.op.size]);
      const Bytes own(whole.begin() + from, whole.begin() + to);
      total = i == 0 ? own : added(act.op, total, own);
    }
    std::copy(total.begin(), total.end(), all.begin() + from);
  }
  return all;
}

/// The arc before each sandbox member, in their order; of no members where another one is.
std::vector<Arc> arcs(const Op& op, const std::vector<int>& sandbox) {
  std::vector<Arc> result;
  for (std::size_t place = 0; place < sandbox.size(); ++place) {
    const int before = sandbox[(place + sandbox.size() - 1) % sandbox.size()];
    result.push_back({op.size, before, wrapped(sandbox[place] - before - 1, op.size)});
  }
  return result;
}

/// The first arc after a sandbox member brings all, by its last member.
void bring_left(Act& act, const std::vector<Arc>& arcs) {
  bool carried = false;
  for (std::size_t place = 0; place < arcs.size(); ++place) {
    for (int i = 0; reduces(act.op.kind) && i < arcs[place].members; ++i) {
      Bytes& input = act.inputs[arcs[place].member(i)];
      if (!carried && i + 1 == arcs[place].members) {
        act.brought[place].head = pruned::testing::brought(act.op, input);
        act.brought[place].has_head = carried = true;
      } else {
        input = identities(act.op, input.size());
      }
    }
  }
}

/// All have what one has.
void repeat_input(Act& act, int member) {
  for (int rank = 0; rank < act.op.size; ++rank) {
    act.inputs[rank] = act.inputs[member];
  }
}

void bring_exact(Act& act, const Run& run, const std::vector<Arc>& arcs, std::size_t bytes) {
  const int size = act.op.size;
  for (std::size_t place = 0; reduces(act.op.kind) && place < arcs.size(); ++place) {
    act.brought[place].head = partial(
        act, run, bytes, [&](int owner) { return (owner + 1) % size; },
        [&](int owner) { return distance(owner + 1, arcs[place].before(), size); });
    act.brought[place].has_head = true;
  }
}

void bring_prefolded(Act& act, const Run& run, const std::vector<Arc>& arcs, std::size_t bytes) {
  const int size = act.op.size;
  for (std::size_t place = 0; reduces(act.op.kind) && place < arcs.size(); ++place) {
    const Arc& arc = arcs[place];
    if (arc.members == 0) {
      continue;
    }
    const auto inside = [&](int owner) { return distance(owner + 1, arc.before(), size) <= arc.members; };
    Brought& brought = act.brought[place];
    brought.head = partial(
        act, run, bytes, [&](int owner) { return (owner + 1) % size; },
        [&](int owner) { return inside(owner) ? distance(owner + 1, arc.before(), size) : 0; });
    brought.tail = partial(
        act, run, bytes, [&](int) { return arc.member(0); },
        [&](int owner) { return owner == arc.after ? 0 : std::min(distance(arc.after, owner, size), arc.members); });
    brought.has_head = brought.has_tail = true;
  }
}

}  // namespace

Act act_of(const Op& op, const std::vector<int>& sandbox, Mode mode, Sizes sizes, unsigned seed) {
  Act act{.op = op, .mode = mode, .inputs = pruned::testing::random_inputs(op, seed), .brought = {}, .outputs = {}};
  act.brought.resize(sandbox.size());
  const std::vector<Arc> arcs = testing::arcs(op, sandbox);
  if (mode == Mode::kLeft) {
    bring_left(act, arcs);
  }
  if (mode == Mode::kReplicas) {
    repeat_input(act, sandbox.front());
  }
  const Run run = pruned::testing::run_naively(op, sizes, act.inputs);
  const Bytes final = result(op, run);
  if (mode == Mode::kExact) {
    bring_exact(act, run, arcs, final.size());
  } else if (mode == Mode::kPrefolded) {
    bring_prefolded(act, run, arcs, final.size());
  }
  for (std::size_t place = 0; place < sandbox.size(); ++place) {
    act.brought[place].final = final;
    act.brought[place].has_final = true;
    const bool takes = op.kind != Kind::kBroadcast || sandbox[place] != op.root;
    act.outputs.push_back(takes ? run.outputs[sandbox[place]] : Bytes{});
  }
  return act;
}

}  // namespace pruned::device::testing
