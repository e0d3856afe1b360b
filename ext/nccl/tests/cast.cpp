#include "cast.h"

#include <algorithm>

#include "../barrier.h"
#include "../pairwise_member.h"
#include "../peers.h"
#include "../virtual_arc.h"
#include "check.h"

namespace pruned::testing {

Scene::Scene(const Group& group, const Op& of, unsigned seed) : op(of), outputs(of.size) {
  if (op.kind == Kind::kBarrier) {
    return;
  }
  inputs = random_inputs(op, seed);
  if (op.tree) {
    final = run_trees_naively(op, group.sizes, group.nodes, inputs).result;
    expected.assign(op.size, final);
    outputs.assign(op.size, Bytes(final.size()));
    return;
  }
  const Run run = run_naively(op, group.sizes, inputs);
  expected = run.outputs;
  for (int r = 0; r < op.size; ++r) {
    outputs[r].resize(expected[r].size());
    if (op.kind == Kind::kReduceScatter) {
      final.insert(final.end(), expected[r].begin(), expected[r].end());
    } else if (!expected[r].empty()) {
      final = expected[r];
    }
  }
  // What a ring's left neighbour sends of a chunk before its sum is complete is the total just before the own input.
  for (const int b : group.sandbox) {
    Bytes& total = before[b] = Bytes(final.size());
    std::vector<std::size_t> seen;
    const std::vector<Bytes> none;
    const auto& sent = run.sent.empty() ? none : run.sent[(b + op.size - 1) % op.size];
    const auto item = static_cast<std::int64_t>(op.item());
    for (std::int64_t loop = 0, at = 0; reduces(op.kind) && at < std::ssize(sent); ++loop) {
      const int per_loop = op.kind == Kind::kReduce ? 1 : op.size - 1;
      for (int n = 0; n < per_loop; ++n, ++at) {
        const int owner = ((b - 2 - n) % op.size + op.size) % op.size;
        const Extent extent = run.chunks[op.kind == Kind::kReduce ? loop : loop * op.size + owner].first;
        std::copy(sent[at].begin(), sent[at].end(), total.begin() + extent.first * item);
      }
      at += op.kind == Kind::kAllReduce ? op.size - 1 : 0;
    }
  }
}

void Scene::check_outputs(const Group& group) const {
  for (const int rank : group.sandbox) {
    const bool has = op.kind != Kind::kBarrier && (op.kind != Kind::kBroadcast || rank != op.root);
    CHECK(!has || outputs[rank] == expected[rank], describe(op, group.sandbox) + ", rank " + std::to_string(rank));
  }
}

Actor::Actor(const Group& group, Party party)
    : sizes_(group.sizes),
      party_(party),
      ports_(group.ports(party.role, party.rank)),
      shape_(group.size, group.nodes),
      branches_(branches_of(shape_, group.sandbox, party.rank)) {}

std::unique_ptr<Activity> Actor::act(Scene& scene) {
  switch (party_.role) {
    case Party::Role::kMember:
      return member(scene);
    case Party::Role::kArc:
      return is_pairwise(scene.op.kind) || scene.op.tree ? nullptr : arc(scene);
    case Party::Role::kBranches:
      return scene.op.tree ? branches(scene) : nullptr;
    default:
      return is_pairwise(scene.op.kind)
                 ? std::make_unique<Peers>(scene.op, scene.expected[party_.rank].data(), std::nullopt, ports_)
                 : nullptr;
  }
}

std::unique_ptr<Activity> Actor::member(Scene& scene) {
  if (scene.op.kind == Kind::kBarrier) {
    return std::make_unique<BarrierMember>(ports_);
  }
  const int rank = party_.rank;
  const bool takes = scene.op.kind != Kind::kBroadcast || rank != scene.op.root;
  const Buffers buffers{.input = scene.inputs[rank].data(), .output = takes ? scene.outputs[rank].data() : nullptr};
  if (is_pairwise(scene.op.kind)) {
    return std::make_unique<PairwiseMember>(scene.op, buffers, ports_);
  }
  if (scene.op.tree) {
    places_ = places_of(shape_, ports_);
    return std::make_unique<TreeMember>(scene.op, sizes_, buffers, places_);
  }
  return std::make_unique<RingMember>(scene.op, sizes_, rank, buffers, ports_.from(ports_.left_of(rank)),
                                      ports_.to(ports_.right_of(rank)));
}

std::unique_ptr<Activity> Actor::arc(const Scene& scene) {
  const Arc arc = *arc_after(ports_.size(), ports_.sandbox(), party_.rank);
  if (scene.op.kind == Kind::kBarrier) {
    return std::make_unique<BarrierArc>(arc, std::nullopt, ports_);
  }
  const Contribution contribution{
      .mode = Mode::kExact, .head = scene.before.at(arc.before()).data(), .final = scene.final.data()};
  return std::make_unique<VirtualArc>(scene.op, sizes_, arc, contribution, std::nullopt, nullptr,
                                      ports_.from({Party::Role::kMember, arc.after}),
                                      ports_.to({Party::Role::kMember, arc.before()}), pool_);
}

std::unique_ptr<Activity> Actor::branches(const Scene& scene) {
  const Contribution contribution{.mode = Mode::kExact, .final = scene.final.data()};
  return std::make_unique<VirtualBranches>(branches_, scene.op, sizes_, shape_, contribution, std::nullopt, nullptr,
                                           ports_, pool_);
}

std::vector<std::unique_ptr<Actor>> cast_of(const Group& group) {
  std::vector<std::unique_ptr<Actor>> cast;
  for (const int rank : group.sandbox) {
    cast.push_back(std::make_unique<Actor>(group, Party{Party::Role::kMember, rank}));
    cast.push_back(std::make_unique<Actor>(group, Party{Party::Role::kPeers, rank}));
    cast.push_back(std::make_unique<Actor>(group, Party{Party::Role::kBranches, rank}));
    if (arc_after(group.size, group.sandbox, rank).has_value()) {
      cast.push_back(std::make_unique<Actor>(group, Party{Party::Role::kArc, rank}));
    }
  }
  return cast;
}

std::vector<Op> all_kinds(int size, std::int64_t count, Dtype dtype) {
  const Op sum{
      .kind = Kind::kAllReduce, .dtype = dtype, .reduce = Reduce::kSum, .root = size / 2, .size = size, .count = count};
  std::vector<Op> ops;
  for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather, Kind::kBroadcast, Kind::kReduce,
                          Kind::kGather, Kind::kScatter, Kind::kAllToAll, Kind::kBarrier}) {
    Op op = sum;
    op.kind = kind;
    op.count = kind == Kind::kReduceScatter || kind == Kind::kAllToAll ? count * size : count;
    ops.push_back(op);
  }
  ops.push_back(sum);
  ops.back().tree = true;
  return ops;
}

}  // namespace pruned::testing
