// A barrier among the sandbox members and the arcs between them: nobody leaves before all N members have come.
//
// It has no data, so only its end matters, which is that of the model: the last post, plus the cost. First everybody
// tells its right neighbour the latest post that it knows of, as often as there are others; then all know the latest of
// all. Then each arc sends a release once that time and the cost are over, and sandbox members without an arc on their
// left are released by their neighbour.

#pragma once

#include <optional>

#include "activity.h"
#include "arc_plan.h"
#include "pace.h"
#include "ports.h"

namespace pruned {

/// The first part: a ring of parties that all learn the latest post.
class LatestPost {
 public:
  LatestPost(std::int64_t own, int parties, Inlet& left, Outlet& right)
      : latest_(own), rounds_(parties - 1), left_(left), right_(right) {}

  bool advance();
  bool done() const { return sent_ == rounds_ && received_ == rounds_; }
  std::int64_t latest() const { return latest_; }
  void verify() const;

 private:
  std::int64_t latest_;
  int rounds_;
  int sent_ = 0;
  int received_ = 0;
  Inlet& left_;
  Outlet& right_;
};

class BarrierMember final : public Activity {
 public:
  /// `ports` outlive it.
  explicit BarrierMember(Ports& ports);

  bool advance() override;
  bool done() const override { return posts_.done() && received_ && forwarded_; }
  void verify() const override;

 private:
  Inlet& left_;
  Outlet& right_;
  LatestPost posts_;
  bool received_;   // the release, where there is one to come
  bool forwarded_;  // to a sandbox member on the right
};

class BarrierArc final : public Activity {
 public:
  /// `ports`, of the arc, outlive it.
  BarrierArc(const Arc& arc, const std::optional<Times>& times, Ports& ports);

  bool advance() override;
  bool done() const override { return released_; }
  std::int64_t due() const override { return due_; }
  void verify() const override;

 private:
  Inlet& from_a_;
  Outlet& to_b_;
  LatestPost posts_;
  std::int64_t cost_;
  bool released_ = false;
  std::int64_t due_ = kNever;
};

}  // namespace pruned
