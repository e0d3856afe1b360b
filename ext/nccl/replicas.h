// Replicas: the virtual members after a sandbox member have what it has (published.h).
//
// That lies in a file that both map. A FIFO tells the arc that it is there; the arc releases that slot when it is
// done, and before that the member does not write the next one.

#pragma once

#include <functional>
#include <memory>

#include "activity.h"
#include "fifo.h"
#include "op.h"

namespace pruned {

/// Bytes of what a member publishes; 0 if that is nothing.
std::size_t published_bytes(const Op& op, int rank);

using Begin = std::function<std::unique_ptr<Activity>()>;

class PublishingMember final : public Activity {
 public:
  /// `then` makes the activity that follows.
  PublishingMember(const std::byte* data, std::size_t bytes, std::shared_ptr<Mapping> file, Outlet& told, Begin then)
      : data_(data), bytes_(bytes), file_(std::move(file)), told_(told), then_(std::move(then)) {}

  bool advance() override;
  bool done() const override { return inner_ != nullptr && inner_->done(); }
  std::int64_t due() const override { return inner_ == nullptr ? kNever : inner_->due(); }
  void verify() const override;

 private:
  const std::byte* data_;
  std::size_t bytes_;
  std::shared_ptr<Mapping> file_;
  Outlet& told_;
  Begin then_;
  std::unique_ptr<Activity> inner_;
};

class ReplicatingArc final : public Activity {
 public:
  /// `then` makes the activity that needs what is published.
  ReplicatingArc(Inlet& told, Begin then) : told_(told), then_(std::move(then)) {}

  bool advance() override;
  bool done() const override { return released_; }
  std::int64_t due() const override { return inner_ == nullptr ? kNever : inner_->due(); }
  void verify() const override;

 private:
  Inlet& told_;
  Begin then_;
  std::unique_ptr<Activity> inner_;
  bool released_ = false;
};

}  // namespace pruned
