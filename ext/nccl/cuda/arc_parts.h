// The virtual members before a sandbox member, in a collective along the ring or a chain: who takes in what comes from
// the sandbox member before them, and who sends, side by side.
//
// They share the stash: what came in and goes out again, and how far each of them is. The receiver is never held up by
// the sender in a ring, as the stash holds N chunks: chunk r + N comes only after what chunk r was waited for was sent.

#pragma once

#include "moves.h"
#include "ring_clock.h"

namespace pruned::device {

/// What both have of the stash, in one channel. Its counts have the number of the operation above those of its chunks.
class StashEnd {
 public:
  PRUNED_HD StashEnd(const RingJob& job, int channel, std::uint64_t number)
      : stash_(job.stash),
        channel_(channel),
        channels_(job.channels),
        used_(job.shown.releases != nullptr || !(job.mode == Mode::kExact && reduces(job.outline.kind))),
        base_((number + 1) << 32),
        received_(job.stash.received + channel * kCountStride),
        sent_(job.stash.sent + channel * kCountStride) {}

  /// Whether anything but counts is left there.
  PRUNED_HD bool used() const { return used_; }
  /// Of this channel's part of a chunk, so far behind its beginning. Channels run apart: each has room of its own.
  PRUNED_HD std::byte* at(std::int64_t receive, std::int64_t bytes) const {
    return stash_.data + (receive % stash_.window * channels_ + channel_) * stash_.stride + bytes;
  }
  PRUNED_HD std::int64_t* arrival(std::int64_t receive) const {
    return stash_.arrivals + receive % stash_.window * kMaxChannels + channel_;
  }
  PRUNED_HD Note received(std::int64_t receives) const { return {received_, base_ + receives}; }
  PRUNED_HD Note sent(std::int64_t sends) const { return {sent_, base_ + sends}; }
  PRUNED_HD std::int64_t window() const { return stash_.window; }

 private:
  const Stash& stash_;
  int channel_;
  int channels_;
  bool used_;
  std::uint64_t base_;
  std::uint64_t* received_;
  std::uint64_t* sent_;
};

class ArcReceiver {
 public:
  PRUNED_HD ArcReceiver(const RingJob& job, const Planned& planned, int channel, std::uint64_t number)
      : job_(job),
        channel_(channel),
        plan_(job.outline_of(channel), job.blocks(), job.sizes, job.arc()),
        in_(End::of_receiver(job.arc_in + channel, credits_of(job.right_credits, channel))),
        stash_(job, channel, number),
        clock_(job, planned, plan_),
        sender_{stash_.sent(0).count, 0} {}

  template <class T, class Team>
  PRUNED_HD bool run(Team& team) {
    Moved moved;
    return carry_out<T>(team, job_, *this, in_, in_, moved);
  }

  PRUNED_HD std::int64_t steps() const { return plan_.receives(); }

  /// What is dropped is not even read; in lines its coming has to be waited for all the same.
  PRUNED_HD Move move(std::int64_t receive) const {
    const bool kept = plan_.forwards(receive) && !(job_.mode == Mode::kExact && reduces(job_.outline.kind));
    const ByteRange part = part_of(plan_.received(receive), job_.outline.item, job_.part(channel_), job_.parts);
    return {.store = kept ? stash_.at(receive, 0) : nullptr,
            .bytes = static_cast<std::int32_t>(part.count()),
            .receives = true};
  }

  /// The send that the chunk before it in the window was kept for has gone.
  template <class Team>
  PRUNED_HD void await(Team& team, std::int64_t receive) {
    if (!stash_.used() || receive < stash_.window()) {
      return;
    }
    const std::int64_t earlier = receive - stash_.window();
    const std::int64_t send = plan_.chain() ? earlier : earlier + plan_.arc().members;
    if (send < plan_.sends()) {
      team.spin(sender_, stash_.sent(send + 1).value);
    }
  }
  template <class Team>
  PRUNED_HD void await_slice(Team& team, std::int64_t receive, int left, int) {
    if (left == 0 && clock_.paced()) {
      team.spin(in_.other, in_.count + 1);
      latest_ = clock_.arrived(latest_, receive, team.now());
      if (team.leads()) {
        *stash_.arrival(receive) = latest_;
      }
    }
  }
  PRUNED_HD Note progress(std::int64_t receive) const { return stash_.received(receive + 1); }
  PRUNED_HD bool wrote() const { return stash_.used(); }
  PRUNED_HD double factor() const { return 1; }

 private:
  const RingJob& job_;
  int channel_;
  EvenArcPlan plan_;
  End in_;
  StashEnd stash_;
  RingClock clock_;
  Watch sender_;
  std::int64_t latest_ = kLongAgo;
};

class ArcSender {
 public:
  PRUNED_HD ArcSender(const RingJob& job, const Planned& planned, const Contribution& contribution, double factor,
                      int channel, std::uint64_t number)
      : job_(job),
        contribution_(contribution),
        factor_(factor),
        channel_(channel),
        plan_(job.outline_of(channel), job.blocks(), job.sizes, job.arc()),
        out_(End::of_sender(job.left + channel, credits_of(job.left_credits, channel))),
        stash_(job, channel, number),
        clock_(job, planned, plan_),
        receiver_{stash_.received(0).count, 0} {}

  template <class T, class Team>
  PRUNED_HD bool run(Team& team) {
    if (clock_.paced() && steps() > 0 && team.waits()) {
      clock_.begin(team);
    }
    Moved moved;
    return carry_out<T>(team, job_, *this, out_, out_, moved);
  }

  PRUNED_HD std::int64_t steps() const { return plan_.sends(); }

  PRUNED_HD Move move(std::int64_t send) const {
    const ArcStep step = plan_.step(send);
    const Recipe made = recipe(step, job_.outline.kind, contribution_, plan_.arc().members);
    const ByteRange part = part_of(step.extent, job_.outline.item, job_.part(channel_), job_.parts);
    Move move{.bytes = static_cast<std::int32_t>(part.count()),
              .sends = true,
              .divides = made.complete && job_.rule.divisor != 0};
    if (made.base == Source::kArray) {
      move.first = made.base_array + part.first;
    } else if (made.base == Source::kDelayed) {
      move.first = stash_.at(plan_.needs(send), 0);
    }
    if (made.added == Source::kArray) {
      move.second = made.added_array + part.first;
    }
    if (made.base == Source::kReplicas || made.added == Source::kReplicas) {
      (made.base == Source::kReplicas ? move.first : move.second) = published(step, part);
      move.copies = reduces(job_.outline.kind) ? made.copies : 1;
      move.scales = job_.rule.scales_first;
    }
    return move;
  }

  /// What this send waits for has come; then its time is known.
  template <class Team>
  PRUNED_HD void await(Team& team, std::int64_t send) {
    const std::int64_t needed = plan_.needs(send);
    if (needed >= 0) {
      team.spin(receiver_, stash_.received(needed + 1).value);
    }
    if (clock_.paced()) {
      clock_.next(team, send, needed >= 0 ? stash_.arrival(needed) : nullptr);
    }
  }
  template <class Team>
  PRUNED_HD void await_slice(Team& team, std::int64_t, int left, int bytes) {
    if (clock_.paced()) {
      team.wait_until(clock_.release(left, bytes));
    }
  }
  PRUNED_HD Note progress(std::int64_t send) const { return stash_.used() ? stash_.sent(send + 1) : Note{}; }
  PRUNED_HD bool wrote() const { return false; }
  PRUNED_HD double factor() const { return factor_; }

 private:
  /// What the member before the arc brings to this part; of an all_gather its own block, in each other's place.
  PRUNED_HD const std::byte* published(const ArcStep& step, const ByteRange& part) const {
    const std::int64_t first =
        job_.outline.kind == Kind::kAllGather ? step.owner * job_.block * job_.outline.item : std::int64_t{0};
    return job_.published != nullptr ? job_.published + part.first - first : nullptr;
  }

  const RingJob& job_;
  const Contribution& contribution_;
  double factor_;  // of replicas, where inputs are scaled
  int channel_;
  EvenArcPlan plan_;
  End out_;
  StashEnd stash_;
  RingClock clock_;
  Watch receiver_;
};

}  // namespace pruned::device
