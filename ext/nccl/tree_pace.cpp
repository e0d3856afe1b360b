#include "tree_pace.h"

#include <algorithm>
#include <limits>

namespace pruned {
namespace {

// So long ago that hops may be added to it.
constexpr std::int64_t kBefore = std::numeric_limits<std::int64_t>::min() / 2;

}  // namespace

BranchPace::BranchPace(const Branch& branch, int depth, std::int64_t chunks, const Times& times)
    : branch_(branch),
      hops_(2 * depth),
      steps_(2 * depth + chunks - 1),
      latency_(times.latency),
      transfer_(times.transfer),
      posted_(kBefore),
      latest_(branch.below.size() + 1, kBefore) {
  for (const auto& [member, hops] : branch.members) {
    posted_ = std::max(posted_, times.posts[member] + hop(hops));
  }
}

std::int64_t BranchPace::arrived(int from, std::int64_t chunk, std::int64_t stamp) {
  std::int64_t& latest = latest_[from + 1];
  latest = std::max(latest, stamp - behind(chunk));
  return latest;
}

std::int64_t BranchPace::summed(const std::vector<std::int64_t>& below) const {
  std::int64_t begun = posted_;
  for (std::size_t i = 0; i < below.size(); ++i) {
    begun = std::max(begun, below[i] + hop(branch_.below[i].hops));
  }
  return begun;
}

}  // namespace pruned
