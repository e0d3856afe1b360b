#include "member_plan.h"

namespace pruned {

std::int64_t MemberPlan::steps_a_loop() const {
  return is_chain(kind_) ? 1 : sends_a_loop(kind_, size_) + 1;  // the first only sends, the last only receives
}

MemberStep MemberPlan::step(std::int64_t index) const {
  if (is_chain(kind_)) {
    return chain_step(index);
  }
  return ring_step(index / steps_a_loop(), static_cast<int>(index % steps_a_loop()));
}

MemberStep MemberPlan::ring_step(std::int64_t loop, int n) const {
  const bool gathers = kind_ == Kind::kAllGather;
  const int owner = wrapped(rank_ - (gathers ? 0 : 1) - n, size_);
  return {
      .receive = n > 0,
      .reduce = !gathers && n > 0 && n < size_,
      .store = gathers || n >= size_ - 1,
      .send = n < sends_a_loop(kind_, size_),
      .complete = !gathers && n == size_ - 1,
      .extent = cut_.chunk(loop, owner),
  };
}

MemberStep MemberPlan::chain_step(std::int64_t loop) const {
  const int start = chain_start(kind_, root_, size_);
  const bool first = rank_ == start, last = rank_ == wrapped(start - 1, size_);
  const bool sums = kind_ == Kind::kReduce;
  return {
      .receive = !first,
      .reduce = sums && !first,
      .store = sums ? last : !first,
      .send = !last,
      .complete = sums && last,
      .extent = cut_.chunk(loop, rank_),
  };
}

}  // namespace pruned
