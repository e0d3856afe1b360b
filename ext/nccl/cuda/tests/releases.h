// Releases of one arc, as the process of the virtual members writes them.

#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "../../pace.h"
#include "../releases.h"

namespace pruned::device::testing {

class Releases {
 public:
  /// Of operation number `entry`, in a file whose window has room for 8.
  Releases(const ArcPlan& plan, const Times& times, std::int64_t entry) {
    const auto most = static_cast<std::int64_t>(times.posts.size());
    words_.resize(static_cast<std::size_t>(kHeaderWords + 8 * entry_words(most)));
    words_[0] = kReleasesMagic;
    words_[1] = 8;
    words_[2] = most;
    std::int64_t* at = words_.data() + kHeaderWords + entry % 8 * entry_words(most);
    const std::int64_t senders = most - plan.first_sender();
    const std::int64_t count = plan.chain() ? senders : std::min(senders, plan.sends());
    at[1] = plan.chain() ? 1 : count;
    at[2] = std::numeric_limits<std::int64_t>::min();
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t post = times.posts[static_cast<std::size_t>(most - 1 - i)];
      if (plan.chain()) {
        at[2] = std::max(at[2], post + hops(plan, times.latency, times.transfer, i));
      } else {
        at[2 + i] = post;
      }
    }
    at[0] = entry + 1;
  }

  const std::int64_t* words() const { return words_.data(); }
  std::size_t size() const { return words_.size(); }

 private:
  std::vector<std::int64_t> words_;
};

}  // namespace pruned::device::testing
