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

/// a modulo n, never negative.
constexpr int wrapped(std::int64_t a, int n) { return static_cast<int>(((a % n) + n) % n); }
constexpr int wrapped(int a, int n) { return ((a % n) + n) % n; }

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

template <class B>
class BasicMemberPlan {
 public:
  constexpr BasicMemberPlan(const Outline& of, const B& blocks, Sizes sizes, int rank)
      : kind_(of.kind), size_(of.size), root_(of.root), rank_(rank), cut_(of, blocks, sizes) {}

  constexpr std::int64_t steps() const { return cut_.loops() * steps_a_loop(); }
  constexpr MemberStep step(std::int64_t index) const {
    return step(index / steps_a_loop(), static_cast<int>(index % steps_a_loop()));
  }
  /// The same by loop, and the step in it.
  constexpr MemberStep step(std::int64_t loop, int n) const {
    return is_chain(kind_) ? chain_step(loop) : ring_step(loop, n);
  }

  constexpr std::int64_t loops() const { return cut_.loops(); }
  /// The first one of a ring only sends, the last one only receives.
  constexpr int steps_a_loop() const { return is_chain(kind_) ? 1 : sends_a_loop(kind_, size_) + 1; }

 private:
  constexpr MemberStep ring_step(std::int64_t loop, int n) const {
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

  constexpr MemberStep chain_step(std::int64_t loop) const {
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

  Kind kind_;
  int size_;
  int root_;
  int rank_;
  BasicCut<B> cut_;
};

class MemberPlan : public BasicMemberPlan<Blocks> {
 public:
  MemberPlan(const Op& op, Sizes sizes, int rank) : BasicMemberPlan(outline_of(op), blocks_of(op), sizes, rank) {}
};

}  // namespace pruned
