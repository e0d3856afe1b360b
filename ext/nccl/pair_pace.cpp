#include "pair_pace.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace pruned {

PairPace::PairPace(const Op& op, int rank, const std::vector<Exchange>& incoming, Times times)
    : op_(op), rank_(rank), times_(std::move(times)), begun_(std::numeric_limits<std::int64_t>::min() / 2) {
  check_posts(times_, op.size);
  for (const Exchange& exchange : incoming) {
    total_ += exchange.extent.count();
  }
}

void PairPace::next(const Exchange& exchange, bool waits) {
  const int step = meeting(exchange.peer, rank_, op_.size), steps = op_.size - 1;
  passed_ += exchange.extent.count();
  // A scatter's root sends to one member after the other; elsewhere this member is what all blocks come through.
  const double part = op_.kind == Kind::kScatter ? static_cast<double>(step) / steps
                      : total_ == 0              ? 0.0
                                                 : static_cast<double>(passed_) / static_cast<double>(total_);
  before_ = cost_;
  cost_ = times_.latency * step / steps + static_cast<std::int64_t>(static_cast<double>(times_.transfer) * part);
  if (waits) {
    begun_ = std::max(begun_, times_.posts[exchange.peer] - before_);
  }
}

std::int64_t PairPace::release(double part) const {
  return begun_ + before_ + static_cast<std::int64_t>(static_cast<double>(cost_ - before_) * part);
}

}  // namespace pruned
