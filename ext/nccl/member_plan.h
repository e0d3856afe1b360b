// What one member of a ring or chain does, step by step. This is the algorithm of N ranks; nothing here is pruned.
//
// Ring, member r: at step n it receives chunk r - 1 - n from its left (not at step 0), adds its own input, sends it to
// its right (not at the last step). From step N - 1 on the sums are complete, are stored and go round as they are. An
// all_gather is that second half alone, with chunk r - n; a reduce_scatter the first half. Chain: one step a chunk.

#pragma once

#include "cut.h"

namespace pruned {

struct MemberStep {
  bool receive = false;
  bool reduce = false;  // the own input is added to what was received
  bool store = false;   // the value goes to the output
  bool send = false;
  bool complete = false;  // the value is a sum to which nothing will be added: integer averages are divided here
  Extent extent;

  bool operator==(const MemberStep&) const = default;
};

class MemberPlan {
 public:
  MemberPlan(const Op& op, Sizes sizes, int rank)
      : kind_(op.kind), size_(op.size), root_(op.root), rank_(rank), cut_(op, sizes) {}

  std::int64_t steps() const { return cut_.loops() * steps_a_loop(); }
  MemberStep step(std::int64_t index) const;

 private:
  std::int64_t steps_a_loop() const;
  MemberStep ring_step(std::int64_t loop, int n) const;
  MemberStep chain_step(std::int64_t loop) const;

  Kind kind_;
  int size_;
  int root_;
  int rank_;
  Cut cut_;
};

/// a modulo n, never negative.
constexpr int wrapped(std::int64_t a, int n) { return static_cast<int>(((a % n) + n) % n); }

/// How often each member sends in one loop.
constexpr int sends_a_loop(Kind kind, int size) {
  switch (kind) {
    case Kind::kAllReduce:
      return 2 * (size - 1);
    case Kind::kReduceScatter:
    case Kind::kAllGather:
      return size - 1;
    default:
      return 1;
  }
}

/// The member that a chain begins with: a broadcast's root, or who sits behind a reduce's.
constexpr int chain_start(Kind kind, int root, int size) { return kind == Kind::kBroadcast ? root : (root + 1) % size; }

}  // namespace pruned
