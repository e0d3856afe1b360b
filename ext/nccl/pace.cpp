#include "pace.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace pruned {
namespace {

constexpr std::int64_t kBegin = std::numeric_limits<std::int64_t>::min();

}  // namespace

std::int64_t share(std::int64_t amount, std::int64_t part, std::int64_t whole) {
  __extension__ using Wide = __int128;
  return static_cast<std::int64_t>(static_cast<Wide>(amount) * part / whole);
}

void check_posts(const Times& times, int members) {
  if (times.posts.size() != static_cast<std::size_t>(members)) {
    throw std::invalid_argument(std::to_string(times.posts.size()) + " posts for " + std::to_string(members) +
                                " members");
  }
}

Pace::Pace(const ArcPlan& plan, Times times) : plan_(plan), times_(std::move(times)), head_(kBegin) {
  check_posts(times_, plan.arc().members);
}

void Pace::arrived(std::int64_t stamp) {
  // t_a(j) - C(j) is itself a running maximum: of s_j - C(j - 1).
  const std::int64_t begun = stamp - through(arrivals_ - 1);
  tail_.push_back(tail_.empty() ? begun : std::max(tail_.back(), begun));
  ++arrivals_;
}

std::int64_t Pace::release(std::int64_t send) {
  const int senders = plan_.arc().members - plan_.first_sender();
  const std::int64_t behind = plan_.chain() ? senders : std::min<std::int64_t>(send + 1, senders);
  while (included_ < behind) {
    include_post(included_++);
  }
  std::int64_t begun = head_;
  if (const std::int64_t needed = plan_.needs(send); needed >= 0) {
    for (; dropped_ < needed; ++dropped_) {
      tail_.pop_front();
    }
    begun = std::max(begun, tail_.front() + hops(plan_.arc().members));
  }
  return begun + through(send) + share(times_.latency, 1, plan_.steps());
}

void Pace::include_post(int i) {
  const std::int64_t post = times_.posts[plan_.arc().members - 1 - i];
  head_ = std::max(head_, post + hops(i));
}

/// C(send): the transfer of all sends up to this one.
std::int64_t Pace::through(std::int64_t send) const {
  const Cut& cut = plan_.cut();
  if (send < 0) {
    return 0;
  }
  if (plan_.chain()) {  // the last rank's last chunk comes after N - 2 more
    return share(times_.transfer, send + 1, cut.loops() + plan_.arc().size - 2);
  }
  const std::int64_t loop = send / plan_.per_loop(), n = send % plan_.per_loop();
  const std::int64_t whole = cut.weight_before(cut.loops() - 1) + cut.weight(cut.loops() - 1);
  return share(times_.transfer, plan_.per_loop() * cut.weight_before(loop) + (n + 1) * cut.weight(loop),
               plan_.per_loop() * whole);
}

/// What so many hops along the ring or chain add.
std::int64_t Pace::hops(std::int64_t count) const {
  const std::int64_t latency = share(times_.latency, count, plan_.steps());
  return plan_.chain() ? latency + through(count - 1) : latency;
}

}  // namespace pruned
