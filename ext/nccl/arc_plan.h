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

  int member(int i) const { return (after + 1 + i) % size; }                // 0 <= i < members
  int before() const { return (after + members + 1) % size; }               // the sandbox member that the arc sends to
  int position(int rank) const { return wrapped(rank - after - 1, size); }  // the inverse of member()
  bool has(int rank) const { return position(rank) < members; }
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

class ArcPlan {
 public:
  ArcPlan(const Op& op, Sizes sizes, const Arc& arc);

  std::int64_t sends() const { return sends_to_b_ ? cut_.loops() * per_loop_ : 0; }
  std::int64_t receives() const { return receives_from_a_ ? cut_.loops() * per_loop_ : 0; }
  ArcStep step(std::int64_t send) const;
  Extent received(std::int64_t receive) const;

  /// The receive that must be done before this send; -1 if there is none.
  std::int64_t needs(std::int64_t send) const;
  /// Whether what comes in with this receive goes out again.
  bool forwards(std::int64_t receive) const;

  const Arc& arc() const { return arc_; }
  const Cut& cut() const { return cut_; }
  bool chain() const { return is_chain(kind_); }
  /// Steps from one end of the operation to the other, loops included: what its latency is spread over.
  std::int64_t steps() const;
  int per_loop() const { return per_loop_; }
  /// The first member of the arc, by position, that the time of what is sent depends on.
  int first_sender() const { return starts_inside_ ? arc_.position(start_) : 0; }

 private:
  ArcStep ring_step(std::int64_t loop, int n) const;
  ArcStep chain_step(std::int64_t loop) const;

  Kind kind_;
  Arc arc_;
  Cut cut_;
  int per_loop_;
  int start_ = -1;  // of a chain
  bool starts_inside_ = false;
  bool sends_to_b_ = true;
  bool receives_from_a_ = true;
};

}  // namespace pruned
