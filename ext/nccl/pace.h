// When the last member of an arc would send, had every member its own time to post, and every hop its own cost.
//
// In a ring of N ranks send g of rank r ends at t_r(g) = max(t_r(g - 1), t_{r-1}(g - 1) + alpha) + tau_g, the first at
// T_r + tau_0. Unrolled over the m members between a and b, that is a maximum of running maxima:
//
//   t_{b-1}(g) = C(g) + max(max_{i <= min(g, m-1)} (T_{b-1-i} + i alpha),  max_{j <= g-m} (t_a(j) - C(j)) + m alpha)
//
// with C(g) = tau_0 + ... + tau_g, so thousands of members cost as much as one. The links from a and to b are virtual
// too: a's send j, handed over at s_j, ends at t_a(j) = max(t_a(j - 1), s_j) + tau_j, and b has what is sent at
// t_{b-1}(g) + alpha. In a chain send g of a rank awaits send g of the rank before it, so a hop costs alpha + tau.
// Latency and transfer of the operation are spread over its steps: with equal posts it ends at their sum after them.

#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "arc_plan.h"

namespace pruned {

/// When each member of an arc posts, in its order, and what the whole operation costs; all in ns.
struct Times {
  std::vector<std::int64_t> posts;
  std::int64_t latency = 0;
  std::int64_t transfer = 0;
};

/// Throws std::invalid_argument if there is not a post for each of so many members.
void check_posts(const Times& times, int members);

/// amount * part / whole; the product may need more than 64 bits.
constexpr std::int64_t share(std::int64_t amount, std::int64_t part, std::int64_t whole) {
  __extension__ using Wide = __int128;
  return static_cast<std::int64_t>(static_cast<Wide>(amount) * part / whole);
}

/// C(send): the transfer of all sends up to this one, of an operation whose transfer takes so long.
template <class B>
constexpr std::int64_t through(const BasicArcPlan<B>& plan, std::int64_t transfer, std::int64_t send) {
  const BasicCut<B>& cut = plan.cut();
  if (send < 0) {
    return 0;
  }
  if (plan.chain()) {  // the last rank's last chunk comes after N - 2 more
    return share(transfer, send + 1, cut.loops() + plan.arc().size - 2);
  }
  const std::int64_t loop = send / plan.per_loop(), n = send % plan.per_loop();
  const std::int64_t whole = cut.weight_before(cut.loops() - 1) + cut.weight(cut.loops() - 1);
  return share(transfer, plan.per_loop() * cut.weight_before(loop) + (n + 1) * cut.weight(loop),
               plan.per_loop() * whole);
}

/// What so many hops along the ring or chain add.
template <class B>
constexpr std::int64_t hops(const BasicArcPlan<B>& plan, std::int64_t latency, std::int64_t transfer,
                            std::int64_t count) {
  const std::int64_t alpha = share(latency, count, plan.steps());
  return plan.chain() ? alpha + through(plan, transfer, count - 1) : alpha;
}

/// How many posts this send depends on, from the arc's last member on.
template <class B>
constexpr std::int64_t heads(const BasicArcPlan<B>& plan, std::int64_t send) {
  const std::int64_t senders = plan.arc().members - plan.first_sender();
  return plan.chain() ? senders : std::min(send + 1, senders);
}

class Pace {
 public:
  /// `plan` outlives it. Throws what check_posts() throws.
  Pace(const ArcPlan& plan, Times times);

  /// The next send of a was handed over at this time.
  void arrived(std::int64_t stamp);
  /// Whether all has arrived that the time of this send depends on.
  bool known(std::int64_t send) const { return plan_.needs(send) < arrivals_; }
  /// When b has this send; it must be known. Sends are asked for in order, each as often as wanted.
  std::int64_t release(std::int64_t send);
  /// What the transfer of this send takes: its tau.
  std::int64_t transfer(std::int64_t send) const {
    return through(plan_, times_.transfer, send) - through(plan_, times_.transfer, send - 1);
  }

 private:
  void include_post(int i);

  const ArcPlan& plan_;
  Times times_;
  std::int64_t head_;              // the running maximum of posts
  int included_ = 0;               // so many posts are in it, from the arc's last member on
  std::deque<std::int64_t> tail_;  // the running maximum of arrivals, from the oldest that is still asked for
  std::int64_t dropped_ = 0;       // entries in front of it
  std::int64_t arrivals_ = 0;
};

}  // namespace pruned
