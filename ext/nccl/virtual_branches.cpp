#include "virtual_branches.h"

#include <algorithm>

namespace pruned {

VirtualBranches::VirtualBranches(const std::vector<Branch>& branches, const Op& op, Sizes sizes, const TreeShape& shape,
                                 const Contribution& contribution, const std::optional<Times>& times,
                                 std::shared_ptr<Mapping> input, Ports& ports, Pool& pool)
    : input_(std::move(input)) {
  if (times.has_value()) {
    check_posts(*times, op.size);
  }
  const TreeOp all{.op = op,
                   .shape = shape,
                   .cut = TreeCut(op, sizes),
                   .contribution = contribution,
                   .times = times.has_value() ? &*times : nullptr,
                   .replica = input_ == nullptr ? nullptr : input_->data()};
  for (const Branch& branch : branches) {
    relays_.push_back(std::make_unique<BranchRelay>(branch, all, ports, pool));
  }
}

bool VirtualBranches::advance() {
  bool moved = false;
  moved_ = {};
  for (const auto& relay : relays_) {
    moved = (!relay->done() && relay->advance()) || moved;
    moved_.sends += relay->moved().sends;
    moved_.receives += relay->moved().receives;
    moved_.sent_bytes += relay->moved().sent_bytes;
    moved_.received_bytes += relay->moved().received_bytes;
  }
  return moved;
}

bool VirtualBranches::done() const {
  return std::ranges::all_of(relays_, [](const auto& relay) { return relay->done(); });
}

std::int64_t VirtualBranches::due() const {
  std::int64_t due = kNever;
  for (const auto& relay : relays_) {
    due = std::min(due, relay->due());
  }
  return due;
}

void VirtualBranches::verify() const {
  for (const auto& relay : relays_) {
    relay->verify();
  }
}

}  // namespace pruned
