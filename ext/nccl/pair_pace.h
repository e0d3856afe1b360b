// When blocks reach a member of gather, scatter or all_to_all, had every sender its own time to post.

#pragma once

#include <cstdint>
#include <vector>

#include "pace.h"
#include "pairs.h"

namespace pruned {

/// When blocks reach a member of an operation in pairs: one step after the other, each after its sender has posted.
class PairPace {
 public:
  /// `times.posts` has an entry for each member of the group. Throws what check_posts() throws.
  PairPace(const Op& op, int rank, const std::vector<Exchange>& incoming, Times times);

  /// Goes on to the next block that comes in; from a virtual member if it waits for its sender's post.
  void next(const Exchange& exchange, bool waits);
  /// When so large a part of the block, at most 1, is there.
  std::int64_t release(double part) const;

 private:
  Op op_;
  int rank_;
  Times times_;
  std::int64_t total_ = 0;   // elements that come in
  std::int64_t passed_ = 0;  // elements of the blocks up to this one
  std::int64_t cost_ = 0;    // of the steps up to this one
  std::int64_t before_ = 0;  // of the steps before it
  std::int64_t begun_;
};

}  // namespace pruned
