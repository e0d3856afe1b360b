// A sandbox member's part in a collective along the ring or a chain: the plan of N ranks, carried out.

#pragma once

#include "moves.h"

namespace pruned::device {

class RingMemberPart {
 public:
  /// `factor`: of inputs, where they are scaled.
  PRUNED_HD RingMemberPart(const RingJob& job, double factor, int channel)
      : job_(job),
        factor_(factor),
        channel_(channel),
        plan_(job.outline_of(channel), job.blocks(), job.sizes, job.rank),
        in_(End::of_receiver(job.left + channel, credits_of(job.left_credits, channel))),
        out_(End::of_sender(job.right + channel, credits_of(job.right_credits, channel))) {}

  template <class T, class Team>
  PRUNED_HD bool run(Team& team) {
    return carry_out<T>(team, job_, *this, in_, out_, moved);
  }

  PRUNED_HD std::int64_t steps() const { return plan_.steps(); }

  PRUNED_HD Move move(std::int64_t index) const {
    const MemberStep step = plan_.step(index);
    const ByteRange part = part_of(step.extent, job_.outline.item, job_.part(channel_), job_.parts);
    const std::byte* own = job_.input + part.first - input_first();
    std::byte* kept = stores(step) ? job_.output + part.first - output_first() : nullptr;
    const bool is_there = kept == own && !step.receive && !reduces(job_.outline.kind);
    return {.first = step.receive ? nullptr : own,
            .second = step.reduce ? own : nullptr,
            .store = is_there ? nullptr : kept,
            .bytes = static_cast<std::int32_t>(part.count()),
            .receives = step.receive,
            .sends = step.send,
            .scales = job_.rule.scales_first && (step.reduce || !step.receive),
            .divides = step.complete && job_.rule.divisor != 0};
  }

  template <class Team>
  PRUNED_HD void await(Team&, std::int64_t) {}
  template <class Team>
  PRUNED_HD void await_slice(Team&, std::int64_t, int, int) {}
  PRUNED_HD Note progress(std::int64_t) const { return {}; }
  PRUNED_HD bool wrote() const { return false; }
  PRUNED_HD double factor() const { return factor_; }

  Moved moved;  // in this channel

 private:
  /// The root of a broadcast keeps its own data too, as NCCL does.
  PRUNED_HD bool stores(const MemberStep& step) const {
    const bool roots = job_.outline.kind == Kind::kBroadcast && !step.receive;
    return job_.output != nullptr && (step.store || roots);
  }

  PRUNED_HD std::int64_t input_first() const {
    return job_.outline.kind == Kind::kAllGather ? job_.rank * job_.block * job_.outline.item : 0;
  }
  PRUNED_HD std::int64_t output_first() const {
    return job_.outline.kind == Kind::kReduceScatter ? job_.rank * job_.block * job_.outline.item : 0;
  }

  const RingJob& job_;
  double factor_;
  int channel_;
  EvenMemberPlan plan_;
  End in_;
  End out_;
};

}  // namespace pruned::device
