// What the virtual members between two sandbox members send on, step by step: a delay line.
//
// Between sandbox members a and b = a + m + 1 lie m virtual ones. At step n the last of them sends to b
//   n < m:  what began in the arc: the inputs of b - 1 - n, ..., b - 1 folded, of chunk b - 2 - n;
//   n >= m: what a sent at step k = n - m; while sums are being made (k <= N - 2), with the inputs of a + 1, a + 2, ...
//           folded in, up to the arc's end or to the chunk's owner, whichever comes first.
// Nothing else of the m members can be seen from outside, so nothing else is done. In an all_gather blocks take the
// place of sums. In a chain a chunk passes all members of the arc in one step, or those behind the chain's start.

#pragma once

#include <optional>

#include "cut.h"
#include "member_plan.h"

namespace pruned {

/// The virtual members between two sandbox members.
struct Arc {
  int size;     // of the group
  int after;    // the sandbox member that sends to the arc
  int members;  // at least 1

  constexpr int member(int i) const { return (after + 1 + i) % size; }  // 0 <= i < members
  /// The sandbox member that the arc sends to.
  constexpr int before() const { return (after + members + 1) % size; }
  constexpr int position(int rank) const { return wrapped(rank - after - 1, size); }  // the inverse of member()
  constexpr bool has(int rank) const { return position(rank) < members; }
};

/// The arc after a sandbox member; empty if the next member is a sandbox member too. `sandbox` is sorted.
std::optional<Arc> arc_after(int size, std::span<const int> sandbox, int after);

/// One send of an arc.
struct ArcStep {
  bool delayed = false;   // it is, or contains, what came in; else it begins in the arc
  int adders = 0;         // so many members of the arc add their input: the first ones of it if delayed, else the last
  bool total = false;     // outside of the arc it is a complete sum, or a member's block: a part of the result
  bool complete = false;  // the last input of its sum is added here
  int owner = 0;          // of the chunk
  Extent extent;

  bool operator==(const ArcStep&) const = default;
};

template <class B>
class BasicArcPlan {
 public:
  constexpr BasicArcPlan(const Outline& of, const B& blocks, Sizes sizes, const Arc& arc)
      : kind_(of.kind), arc_(arc), cut_(of, blocks, sizes), per_loop_(sends_a_loop(of.kind, of.size)) {
    if (chain()) {
      start_ = chain_start(kind_, of.root, of.size);
      starts_inside_ = arc_.has(start_);
      sends_to_b_ = arc_.before() != start_;
      receives_from_a_ = arc_.member(0) != start_;
    }
  }

  constexpr std::int64_t sends() const { return sends_to_b_ ? cut_.loops() * per_loop_ : 0; }
  constexpr std::int64_t receives() const { return receives_from_a_ ? cut_.loops() * per_loop_ : 0; }
  constexpr ArcStep step(std::int64_t send) const {
    return step(send / per_loop_, static_cast<int>(send % per_loop_));
  }
  /// The same by loop, and the step in it.
  constexpr ArcStep step(std::int64_t loop, int n) const { return chain() ? chain_step(loop) : ring_step(loop, n); }
  constexpr Extent received(std::int64_t receive) const {
    return received(receive / per_loop_, static_cast<int>(receive % per_loop_));
  }
  constexpr Extent received(std::int64_t loop, int n) const {
    return cut_.chunk(loop, wrapped(arc_.after - (kind_ == Kind::kAllGather ? 0 : 1) - n, arc_.size));
  }

  /// The receive that must be done before this send; -1 if there is none.
  constexpr std::int64_t needs(std::int64_t send) const {
    if (chain()) {
      return starts_inside_ ? -1 : send;
    }
    return std::max(send - arc_.members, std::int64_t{-1});
  }
  /// Whether what comes in with this receive goes out again.
  constexpr bool forwards(std::int64_t receive) const {
    if (chain()) {
      return sends_to_b_ && !starts_inside_;
    }
    return receive % per_loop_ + arc_.members < per_loop_;
  }

  constexpr const Arc& arc() const { return arc_; }
  constexpr const BasicCut<B>& cut() const { return cut_; }
  constexpr bool chain() const { return is_chain(kind_); }
  /// Steps from one end of the operation to the other, loops included: what its latency is spread over.
  constexpr std::int64_t steps() const { return chain() ? arc_.size - 1 : cut_.loops() * per_loop_; }
  constexpr int per_loop() const { return per_loop_; }
  /// The first member of the arc, by position, that the time of what is sent depends on.
  constexpr int first_sender() const { return starts_inside_ ? arc_.position(start_) : 0; }

 private:
  constexpr ArcStep ring_step(std::int64_t loop, int n) const {
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

  constexpr ArcStep chain_step(std::int64_t loop) const {
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

  Kind kind_;
  Arc arc_;
  BasicCut<B> cut_;
  int per_loop_;
  int start_ = -1;  // of a chain
  bool starts_inside_ = false;
  bool sends_to_b_ = true;
  bool receives_from_a_ = true;
};

class ArcPlan : public BasicArcPlan<Blocks> {
 public:
  ArcPlan(const Op& op, Sizes sizes, const Arc& arc) : BasicArcPlan(outline_of(op), blocks_of(op), sizes, arc) {}
};

}  // namespace pruned
