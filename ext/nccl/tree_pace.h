// When a branch of virtual members sends, had each member its own time to post, and every hop its own cost.
//
// In a tree of N ranks chunk k goes up from rank r at u_r(k) = max(u_r(k - 1), T_r, max over children (u_c(k) + alpha))
// + tau, and down again likewise. All chunks cost the same, so that unrolls into maxima over paths: what ends h hops
// further on is there at
//
//   k tau + max(max over virtual members v (T_v + h_v (alpha + tau)),  max over senders a (s_a(k) + h_a (alpha + tau)))
//
// with s_a(k) the latest of a's hand-overs less those chunks that came before, max over j <= k of (s_j - j tau). With D
// the hops to the root and K chunks an operation takes 2 D hops and K - 1 chunks more: what its latency is spread over
// is 2 D, what its transfer is spread over 2 D + K - 1. With equal posts it ends at their sum after them.

#pragma once

#include <cstdint>
#include <vector>

#include "branch.h"
#include "pace.h"

namespace pruned {

class BranchPace {
 public:
  static constexpr int kAbove = -1;

  /// `branch` outlives it. `depth` of the shape, `chunks` of the longer half; `times.posts` of all the group's members.
  BranchPace(const Branch& branch, int depth, std::int64_t chunks, const Times& times);

  /// below[from], or the member above, has handed over this chunk, one after the other; its s(k).
  std::int64_t arrived(int from, std::int64_t chunk, std::int64_t stamp);
  /// The same of a sum at the end of the branch, given those of what came from below.
  std::int64_t summed(const std::vector<std::int64_t>& below) const;
  /// When a chunk with this s(k) is so many hops further on.
  std::int64_t there(std::int64_t begun, std::int64_t hops, std::int64_t chunk) const {
    return begun + hop(hops) + behind(chunk);
  }

 private:
  std::int64_t hop(std::int64_t count) const {
    return share(latency_, count, hops_) + share(transfer_, count, steps_);
  }
  std::int64_t behind(std::int64_t chunk) const { return share(transfer_, chunk, steps_); }

  const Branch& branch_;
  std::int64_t hops_;
  std::int64_t steps_;
  std::int64_t latency_;
  std::int64_t transfer_;
  std::int64_t posted_;               // when the last member's input is at the end of the branch
  std::vector<std::int64_t> latest_;  // of each sender the maximum so far, the member above first
};

}  // namespace pruned
