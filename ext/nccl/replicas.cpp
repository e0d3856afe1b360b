#include "replicas.h"

#include <algorithm>
#include <cstring>

#include "published.h"

namespace pruned {
namespace {

constexpr std::uint32_t kPublished = 1;

}  // namespace

std::size_t published_bytes(const Op& op, int rank) {
  if (!is_published(op.kind, std::ranges::adjacent_find(op.receives, std::not_equal_to{}) == op.receives.end())) {
    return 0;
  }
  const std::int64_t elements = op.kind == Kind::kBroadcast ? op.count : input_elements(op, rank);
  return static_cast<std::size_t>(elements) * op.item();
}

bool PublishingMember::advance() {
  if (inner_ != nullptr) {
    const bool moved = inner_->advance();
    moved_ = inner_->moved();
    return moved;
  }
  if (!told_.empty()) {
    return false;
  }
  std::memcpy(file_->data(), data_, bytes_);
  told_.publish(0, kPublished);
  inner_ = then_();
  moved_ = inner_->moved();
  return true;
}

void PublishingMember::verify() const {
  if (inner_ != nullptr) {
    inner_->verify();
  }
}

bool ReplicatingArc::advance() {
  if (inner_ == nullptr) {
    if (!told_.ready()) {
      return false;
    }
    told_.front(0, kPublished);
    inner_ = then_();
    return true;
  }
  const bool moved = inner_->advance();
  moved_ = inner_->moved();
  if (inner_->done() && !released_) {
    told_.release();
    released_ = true;
    return true;
  }
  return moved;
}

void ReplicatingArc::verify() const {
  if (inner_ == nullptr) {
    told_.verify();
  } else {
    inner_->verify();
  }
}

}  // namespace pruned
