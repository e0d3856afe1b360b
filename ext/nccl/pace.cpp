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
  const std::int64_t begun = stamp - through(plan_, times_.transfer, arrivals_ - 1);
  tail_.push_back(tail_.empty() ? begun : std::max(tail_.back(), begun));
  ++arrivals_;
}

std::int64_t Pace::release(std::int64_t send) {
  while (included_ < heads(plan_, send)) {
    include_post(included_++);
  }
  std::int64_t begun = head_;
  if (const std::int64_t needed = plan_.needs(send); needed >= 0) {
    for (; dropped_ < needed; ++dropped_) {
      tail_.pop_front();
    }
    begun = std::max(begun, tail_.front() + hops(plan_, times_.latency, times_.transfer, plan_.arc().members));
  }
  return begun + through(plan_, times_.transfer, send) + share(times_.latency, 1, plan_.steps());
}

void Pace::include_post(int i) {
  const std::int64_t post = times_.posts[plan_.arc().members - 1 - i];
  head_ = std::max(head_, post + hops(plan_, times_.latency, times_.transfer, i));
}

}  // namespace pruned
