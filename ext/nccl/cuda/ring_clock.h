// When an arc sends: ../pace.h's rule, fed with the posts that the process of the virtual members shows.

#pragma once

#include <limits>

#include "../pace.h"
#include "job.h"
#include "releases.h"

namespace pruned::device {

constexpr std::int64_t kLongAgo = std::numeric_limits<std::int64_t>::min() / 2;

/// What is shown of one operation's virtual members; releases.h says what it means.
class Heads {
 public:
  PRUNED_HD Heads(const std::int64_t* releases, std::int64_t entry) : entry_(entry) {
    if (releases != nullptr) {
      words_ = releases + kHeaderWords + entry % releases[1] * entry_words(releases[2]);
    }
  }

  PRUNED_HD bool any() const { return words_ != nullptr; }

  /// Who waits: until they are there.
  template <class Team>
  PRUNED_HD void wait(Team& team) {
    for (unsigned turn = 1; team.load_shown(words_) != entry_ + 1 && !team.stopped(); ++turn) {
      team.settle();
      team.look(turn * 64);
    }
    count_ = team.load_shown(words_ + 1);
  }
  template <class Team>
  PRUNED_HD std::int64_t at(Team& team, std::int64_t i) const {
    return i < count_ ? team.load_shown(words_ + 2 + i) : kLongAgo;
  }
  PRUNED_HD std::int64_t count() const { return count_; }

 private:
  const std::int64_t* words_ = nullptr;
  std::int64_t entry_ = 0;
  std::int64_t count_ = 0;
};

/// The times of an arc's sends, for who waits.
class RingClock {
 public:
  PRUNED_HD RingClock(const RingJob& job, const Planned& planned, const EvenArcPlan& plan)
      : planned_(planned), plan_(plan), heads_(job.shown.releases, planned.entry) {
    if (heads_.any()) {
      way_ = hops(plan, planned.latency, planned.transfer, plan.arc().members);
      last_hop_ = share(planned.latency, 1, plan.steps());
    }
  }

  PRUNED_HD bool paced() const { return heads_.any(); }
  template <class Team>
  PRUNED_HD void begin(Team& team) {
    heads_.wait(team);
  }

  /// Goes on to this send; `arrival`: the running maximum of what it waits for, if it waits for anything.
  template <class Team>
  PRUNED_HD void next(Team& team, std::int64_t send, const std::int64_t* arrival) {
    for (; included_ < std::min(heads_.count(), heads(plan_, send)); ++included_) {
      const std::int64_t back = plan_.chain() ? 0 : hops(plan_, planned_.latency, planned_.transfer, included_);
      head_ = std::max(head_, heads_.at(team, included_) + back);
    }
    std::int64_t begun = head_;
    if (arrival != nullptr) {
      begun = std::max(begun, *arrival + way_);
    }
    const std::int64_t all = through(plan_, planned_.transfer, send);
    transfer_ = all - passed_;
    passed_ = all;
    release_ = begun + all + last_hop_;
  }
  /// When so many elements of the send's `count` are still to come.
  PRUNED_HD std::int64_t release(std::int64_t left, std::int64_t count) const {
    const double part = left > 0 ? static_cast<double>(left) / static_cast<double>(count) : 0.0;
    return release_ - static_cast<std::int64_t>(static_cast<double>(transfer_) * part);
  }

  /// The running maximum with receive number `receive`, which came at this time.
  PRUNED_HD std::int64_t arrived(std::int64_t latest, std::int64_t receive, std::int64_t stamp) const {
    return std::max(latest, stamp - through(plan_, planned_.transfer, receive - 1));
  }

 private:
  const Planned& planned_;
  const EvenArcPlan& plan_;
  Heads heads_;
  std::int64_t included_ = 0;  // so many heads are in the running maximum
  std::int64_t head_ = kLongAgo;
  std::int64_t way_ = 0;       // through all of the arc
  std::int64_t last_hop_ = 0;  // to the member after it
  std::int64_t passed_ = 0;    // C(send)
  std::int64_t transfer_ = 0;
  std::int64_t release_ = 0;
};

}  // namespace pruned::device
