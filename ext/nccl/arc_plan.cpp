#include "arc_plan.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace pruned {

std::optional<Arc> arc_after(int size, std::span<const int> sandbox, int after) {
  const auto place = std::ranges::find(sandbox, after);
  if (place == sandbox.end()) {
    throw std::invalid_argument("member " + std::to_string(after) + " is no sandbox member");
  }
  const int next = place + 1 == sandbox.end() ? sandbox.front() + size : place[1];
  const int members = next - after - 1;
  return members == 0 ? std::nullopt : std::optional(Arc{size, after, members});
}

ArcPlan::ArcPlan(const Op& op, Sizes sizes, const Arc& arc)
    : kind_(op.kind), arc_(arc), cut_(op, sizes), per_loop_(sends_a_loop(op.kind, op.size)) {
  if (chain()) {
    start_ = chain_start(kind_, op.root, op.size);
    starts_inside_ = arc_.has(start_);
    sends_to_b_ = arc_.before() != start_;
    receives_from_a_ = arc_.member(0) != start_;
  }
}

ArcStep ArcPlan::step(std::int64_t send) const {
  return chain() ? chain_step(send) : ring_step(send / per_loop_, static_cast<int>(send % per_loop_));
}

ArcStep ArcPlan::ring_step(std::int64_t loop, int n) const {
  const int size = arc_.size, m = arc_.members;
  const bool gathers = kind_ == Kind::kAllGather;
  const int owner = wrapped(arc_.before() - (gathers ? 1 : 2) - n, size);
  const bool delayed = n >= m;
  const bool summing = !gathers && (delayed ? n - m : n) <= size - 2;
  // Of what came in, those up to the owner add, if it is in the arc; of what began here, all that it has passed.
  const bool ends_here = delayed && summing && arc_.has(owner);
  const int adders = ends_here ? arc_.position(owner) + 1 : delayed ? m : n + 1;
  return {
      .delayed = delayed,
      .adders = summing ? adders : 0,
      .total = gathers || n >= size - 1,
      .complete = ends_here,
      .owner = owner,
      .extent = cut_.chunk(loop, owner),
  };
}

ArcStep ArcPlan::chain_step(std::int64_t loop) const {
  const bool sums = kind_ == Kind::kReduce;
  return {
      .delayed = !starts_inside_,
      .adders = sums ? arc_.members - first_sender() : 0,
      .total = !sums,
      .complete = false,
      .owner = wrapped(start_ - (sums ? 1 : 0), arc_.size),
      .extent = cut_.chunk(loop, 0),
  };
}

Extent ArcPlan::received(std::int64_t receive) const {
  const int n = static_cast<int>(receive % per_loop_);
  return cut_.chunk(receive / per_loop_, wrapped(arc_.after - (kind_ == Kind::kAllGather ? 0 : 1) - n, arc_.size));
}

std::int64_t ArcPlan::needs(std::int64_t send) const {
  if (chain()) {
    return starts_inside_ ? -1 : send;
  }
  return std::max(send - arc_.members, std::int64_t{-1});
}

bool ArcPlan::forwards(std::int64_t receive) const {
  if (chain()) {
    return sends_to_b_ && !starts_inside_;
  }
  return receive % per_loop_ + arc_.members < per_loop_;
}

std::int64_t ArcPlan::steps() const { return chain() ? arc_.size - 1 : cut_.loops() * per_loop_; }

}  // namespace pruned
