#include "endpoint.h"

#include <stdexcept>
#include <utility>

#include "barrier.h"
#include "message.h"
#include "pairwise_member.h"
#include "peers.h"
#include "published.h"
#include "replicas.h"
#include "virtual_arc.h"

namespace pruned {
namespace {

std::shared_ptr<Bell> pipe_bell(Directory& directory, const std::string& pipe, bool sender) {
  return std::make_shared<Bell>(directory, pipe_bell_name(pipe, sender));
}

Arc arc_of(const Membership& membership) {
  const auto arc = arc_after(membership.size, membership.sandbox, membership.rank);
  if (!arc.has_value()) {
    throw std::invalid_argument("after member " + std::to_string(membership.rank) +
                                " comes another sandbox member: there is no arc");
  }
  return *arc;
}

void check_buffers(const Op& op, int rank, const Buffers& buffers) {
  if (buffers.input == nullptr && input_elements(op, rank) > 0) {
    throw std::invalid_argument("the operation needs an input here");
  }
  if (buffers.output == nullptr && output_elements(op, rank) > 0) {
    throw std::invalid_argument("the operation needs an output here");
  }
}

}  // namespace

bool Endpoint::wait() { return drive(*activity_, bell(), directory()); }

GroupEndpoint::GroupEndpoint(const Membership& membership, Party::Role role)
    : ports_(std::make_shared<Directory>(membership.directory), membership.group, membership.size, membership.sandbox,
             Party{role, membership.rank}) {}

void GroupEndpoint::check(const Op& op) const {
  validate(op);
  if (op.size != ports_.size()) {
    throw std::invalid_argument("an operation of " + std::to_string(op.size) + " members on a group of " +
                                std::to_string(ports_.size()));
  }
}

MemberEndpoint::MemberEndpoint(const Membership& membership, bool replicas)
    : GroupEndpoint(membership, Party::Role::kMember), replicas_(replicas), nodes_(membership.nodes) {}

Outlet* MemberEndpoint::told(const Op& op) {
  const int rank = ports_.self().rank;
  const bool pruned = static_cast<int>(ports_.sandbox().size()) < ports_.size();
  const bool wanted = op.tree ? pruned : ports_.right_of(rank).role == Party::Role::kArc;
  if (!replicas_ || !wanted || published_bytes(op, rank) == 0) {
    return nullptr;
  }
  return &ports_.outlet(input_fifo_name(ports_.group(), rank, op.tree),
                        {op.tree ? Party::Role::kBranches : Party::Role::kArc, rank});
}

const std::array<TreePlace, kTrees>& MemberEndpoint::places() {
  if (!places_.has_value()) {
    places_ = places_of(TreeShape(ports_.size(), nodes_), ports_);
  }
  return *places_;
}

void MemberEndpoint::start(const Op& op, const Buffers& buffers) {
  check(op);
  const int rank = ports_.self().rank;
  check_buffers(op, rank, buffers);
  Outlet* told = this->told(op);
  if (told == nullptr) {
    begin(collective(op, buffers));
    return;
  }
  const std::size_t bytes = published_bytes(op, rank);
  auto file = ports_.directory().open(input_name(ports_.group(), rank, op.tree), bytes);
  const std::byte* data = published_of(op.kind, rank == op.root, buffers.input, buffers.output);
  begin(std::make_unique<PublishingMember>(data, bytes, std::move(file), *told,
                                           [this, op, buffers] { return collective(op, buffers); }));
}

std::unique_ptr<Activity> MemberEndpoint::collective(const Op& op, const Buffers& buffers) {
  const int rank = ports_.self().rank;
  if (op.kind == Kind::kBarrier) {
    return std::make_unique<BarrierMember>(ports_);
  }
  if (is_pairwise(op.kind)) {
    return std::make_unique<PairwiseMember>(op, buffers, ports_);
  }
  if (op.tree) {
    return std::make_unique<TreeMember>(op, Sizes{}, buffers, places());
  }
  return std::make_unique<RingMember>(op, Sizes{}, rank, buffers, ports_.from(ports_.left_of(rank)),
                                      ports_.to(ports_.right_of(rank)));
}

ArcEndpoint::ArcEndpoint(const Membership& membership)
    : GroupEndpoint(membership, Party::Role::kArc), arc_(arc_of(membership)) {}

void ArcEndpoint::start(const Op& op, const Contribution& contribution, std::optional<Times> times) {
  check(op);
  if (is_pairwise(op.kind)) {
    throw std::invalid_argument("an arc has no part in operations in pairs: those are the peers'");
  }
  if (op.tree) {
    throw std::invalid_argument("an arc has no part in trees: those are the branches'");
  }
  if (op.kind == Kind::kBarrier) {
    begin(std::make_unique<BarrierArc>(arc_, times, ports_));
    return;
  }
  const std::size_t bytes = published_bytes(op, arc_.after);
  const bool replicas = contribution.mode == Mode::kReplicas && bytes > 0;
  auto follow = [this, op, contribution, times, bytes, replicas]() -> std::unique_ptr<Activity> {
    auto file = replicas ? ports_.directory().open(input_name(ports_.group(), arc_.after, false), bytes) : nullptr;
    return std::make_unique<VirtualArc>(op, Sizes{}, arc_, contribution, times, std::move(file),
                                        ports_.from({Party::Role::kMember, arc_.after}),
                                        ports_.to({Party::Role::kMember, arc_.before()}), pool_);
  };
  if (!replicas) {
    begin(follow());
    return;
  }
  Inlet& told =
      ports_.inlet(input_fifo_name(ports_.group(), arc_.after, false), {Party::Role::kMember, arc_.after});
  begin(std::make_unique<ReplicatingArc>(told, std::move(follow)));
}

void PeersEndpoint::start(const Op& op, const std::byte* data, std::optional<Times> times) {
  check(op);
  if (!is_pairwise(op.kind)) {
    throw std::invalid_argument("peers have a part in gather, scatter and all_to_all only");
  }
  begin(std::make_unique<Peers>(op, data, std::move(times), ports_));
}

BranchesEndpoint::BranchesEndpoint(const Membership& membership)
    : GroupEndpoint(membership, Party::Role::kBranches),
      shape_(membership.size, membership.nodes),
      branches_(branches_of(shape_, ports_.sandbox(), membership.rank)) {}

void BranchesEndpoint::start(const Op& op, const Contribution& contribution, const std::optional<Times>& times) {
  check(op);
  if (!op.tree) {
    throw std::invalid_argument("branches have a part in operations along trees only");
  }
  const int rank = ports_.self().rank;
  const std::size_t bytes = published_bytes(op, rank);
  const bool replicas = contribution.mode == Mode::kReplicas && bytes > 0;
  auto follow = [this, op, contribution, times, bytes, replicas, rank]() -> std::unique_ptr<Activity> {
    auto file = replicas ? ports_.directory().open(input_name(ports_.group(), rank, true), bytes) : nullptr;
    return std::make_unique<VirtualBranches>(branches_, op, Sizes{}, shape_, contribution, times, std::move(file),
                                             ports_, pool_);
  };
  if (!replicas) {
    begin(follow());
    return;
  }
  Inlet& told = ports_.inlet(input_fifo_name(ports_.group(), rank, true), {Party::Role::kMember, rank});
  begin(std::make_unique<ReplicatingArc>(told, std::move(follow)));
}

PipeEndpoint::PipeEndpoint(const std::string& directory, std::string name)
    : directory_(std::make_shared<Directory>(directory)), name_(std::move(name)) {}

void PipeEndpoint::send(const std::byte* data, std::size_t bytes, std::int64_t start, std::int64_t duration) {
  if (!outlet_.has_value()) {
    bell_ = pipe_bell(*directory_, name_, true);
    outlet_.emplace(*directory_, pipe_name(name_), pipe_bell(*directory_, name_, false));
  }
  begin(std::make_unique<MessageSend>(data, bytes, start, duration, *outlet_));
}

void PipeEndpoint::receive(std::byte* data, std::size_t bytes) {
  if (!inlet_.has_value()) {
    bell_ = pipe_bell(*directory_, name_, false);
    inlet_.emplace(*directory_, pipe_name(name_), pipe_bell(*directory_, name_, true));
  }
  begin(std::make_unique<MessageReceive>(data, bytes, *inlet_));
}

}  // namespace pruned
