// The parties of one launch: the sandbox member, and the arc before it, whose two halves are parties of their own.

#pragma once

#include "arc_parts.h"
#include "finish.h"
#include "ring_member_part.h"

namespace pruned::device {

enum Party : int { kMember, kArcSender, kArcReceiver };

constexpr int parties(const RingJob& job) { return job.arc_members > 0 ? 3 : 1; }

/// The number of the operation among the group's planned ones.
template <class Team>
PRUNED_HD std::int64_t number_of(Team& team, const RingJob& job) {
  return job.number >= 0 ? job.number : static_cast<std::int64_t>(team.load(&job.progress->number));
}

/// Whether the call is what was planned. The host has looked too, but not where a graph is launched again.
PRUNED_HD inline bool is_planned(const RingJob& job, std::int64_t number) {
  if (number >= job.planned_count) {
    return false;
  }
  const Planned& planned = job.planned[number];
  if (static_cast<Kind>(planned.kind) == Kind::kBarrier) {
    return job.outline.kind == Kind::kAllReduce && job.outline.count == 1;
  }
  return planned.kind == static_cast<std::int32_t>(job.outline.kind) &&
                     planned.count == job.outline.count && planned.root == job.outline.root;
}

/// What inputs are multiplied by, where they are: a number that may lie on the device.
template <class T>
PRUNED_HD double factor_of(const RingJob& job) {
  if (job.scale == nullptr) {
    return job.rule.factor;
  }
  const T scale = *reinterpret_cast<const T*>(job.scale);
  if constexpr (Float<T>) {
    return static_cast<double>(widen(scale));
  } else {
    return static_cast<double>(scale);
  }
}

template <class T, class Team>
PRUNED_HD void run_member(Team& team, const RingJob& job, const Planned& planned, int channel, std::uint64_t number) {
  if (channel == 0 && team.leads()) {
    show_post(team, job.shown, planned.op);
  }
  RingMemberPart part(job, factor_of<T>(job), channel);
  part.template run<T>(team);
  team.settle();
  if (team.leads()) {
    for (int i = job.part(channel) == 0 ? 0 : 1; i < 3; ++i) {
      team.add(&job.progress->of(number).moved[i], part.moved.counts[i]);
    }
  }
}

template <class T, class Team>
PRUNED_HD void run_sender(Team& team, const RingJob& job, const Planned& planned, int channel, std::uint64_t number) {
  Payload* payload = job.payloads + planned.entry;
  if (team.waits()) {
    await_payload(team, payload, job.shown, planned.entry, channel == 0);
  }
  if (!team.meet() || !team.post({.ordered = false})) {
    return;
  }
  const volatile Payload* at = payload;
  const Contribution contribution{.mode = job.mode, .head = at->head, .tail = at->tail, .final = at->final};
  ArcSender(job, planned, contribution, factor_of<T>(job), channel, number).template run<T>(team);
}

template <class T, class Team>
PRUNED_HD void run_ring(Team& team, const RingJob& job, Party party, int channel) {
  const std::int64_t number = number_of(team, job);
  if (!is_planned(job, number)) {
    if (team.leads() && job.shown.failed != nullptr) {
      team.show(job.shown.failed, static_cast<std::uint32_t>(number) + 1);
    }
    return;
  }
  const Planned& planned = job.planned[number];
  switch (party) {
    case kMember:
      run_member<T>(team, job, planned, channel, static_cast<std::uint64_t>(number));
      break;
    case kArcSender:
      run_sender<T>(team, job, planned, channel, static_cast<std::uint64_t>(number));
      break;
    case kArcReceiver:
      ArcReceiver(job, planned, channel, static_cast<std::uint64_t>(number)).template run<T>(team);
      break;
  }
  team.settle();
  if (team.leads()) {
    finish(team, *job.progress, static_cast<std::uint32_t>(job.channels * parties(job)), true, job.shown, planned.op,
           planned.entry, static_cast<std::uint64_t>(number));
  }
}

}  // namespace pruned::device
