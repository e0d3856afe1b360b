// Messages of a sandbox member: each is carried by CTAs of its own, all of a group call at one time.
//
// A virtual partner sends what was read ahead, at its time; what is sent to it ends nowhere, and what does not fit a
// FIFO waits until the partner has posted, as it would in one.

#pragma once

#include "exchange.h"
#include "finish.h"
#include "message_job.h"
#include "ring_clock.h"

namespace pruned::device {

constexpr std::int64_t kMessageSlice = 4 * kSlotSize;   // bytes that a CTA moves at once where there is no FIFO
constexpr std::int64_t kMessageAhead = 4 * 1024 * 1024;  // bytes that go before the partner has posted

class MessagePart {
 public:
  PRUNED_HD MessagePart(const MessageJob& job, int index, int channel)
      : job_(job),
        item_(job.items[index]),
        part_(part_of({0, item_.bytes}, 1, channel, item_.channels)),
        channel_(channel),
        heads_(job.shown.releases, job.entry) {}

  template <class Team>
  PRUNED_HD void run(Team& team) {
    if (channel_ >= item_.channels) {
      return;
    }
    if (item_.fifo != nullptr) {
      through_fifo(team);
    } else if (item_.sends) {
      to_virtual(team);
    } else {
      from_virtual(team);
    }
  }

 private:
  /// By slices; `before(slice)` is what is waited for before each.
  template <class Team, class Before>
  PRUNED_HD void move(Team& team, const std::byte* from, std::byte* to, std::int64_t wrap, Before before) {
    const Slices slices(part_, kMessageSlice);
    for (std::int64_t i = 0; i < slices.count(); ++i) {
      const Extent slice = slices[i];
      if (team.waits()) {
        before(slice);
      }
      if (!team.meet()) {
        return;
      }
      const std::int64_t at = wrap > 0 ? slice.first % wrap : slice.first;
      const std::byte* first = from != nullptr ? from + slice.first : nullptr;
      merge<std::uint8_t>(team, Rule{}, {.first = first, .store = to + at, .bytes = slice.count()});
      if (!team.post({.ordered = false})) {
        return;
      }
    }
  }
  template <class Team>
  PRUNED_HD void through_fifo(Team& team) {
    FifoChannel* channel = item_.fifo + channel_;
    End end = item_.sends ? End::of_sender(channel, nullptr) : End::of_receiver(channel, nullptr);
    const PartSlices slices(part_, false);
    for (int i = 0, count = slices.count(); i < count; ++i) {
      const ByteRange slice = slices[i];
      std::byte* data = item_.data + slice.first;
      const Step step{.in = item_.sends ? nullptr : &end,
                      .out = item_.sends ? &end : nullptr,
                      .piece = {.first = item_.sends ? data : nullptr,
                                .store = item_.sends ? nullptr : data,
                                .bytes = slice.count()}};
      if (!exchange<std::uint8_t>(team, Rule{}, false, step)) {
        return;
      }
    }
  }

  template <class Team>
  PRUNED_HD void to_virtual(Team& team) {
    move(team, item_.data, job_.sink, kSinkSize, [&](const Extent& slice) {
      if (heads_.any() && slice.last > kMessageAhead) {
        heads_.wait(team);
        team.wait_until(heads_.at(team, item_.partner));
      }
    });
  }

  template <class Team>
  PRUNED_HD void from_virtual(Team& team) {
    const std::byte* from = nullptr;
    std::int64_t begun = 0;
    if (item_.payload >= 0) {
      if (team.waits()) {
        await_payload(team, job_.payloads + job_.entry, job_.shown, job_.entry, channel_ == 0);
      }
      if (!team.meet() || !team.post({.ordered = false})) {
        return;
      }
      from = const_cast<const volatile Payload&>(job_.payloads[job_.entry]).head + item_.payload;
    }
    if (heads_.any() && team.waits()) {
      heads_.wait(team);
      begun = latest_post(team);
    }
    move(team, from, item_.data, 0, [&](const Extent& slice) {
      if (heads_.any()) {
        const PartnerTime& time = job_.times[item_.partner];
        const double part = static_cast<double>(slice.last) / static_cast<double>(item_.bytes > 0 ? item_.bytes : 1);
        team.wait_until(begun + time.before +
                        static_cast<std::int64_t>(static_cast<double>(time.cost) * (item_.bytes > 0 ? part : 1.0)));
      }
    });
  }

  /// Of those whose messages come up to this one, less what was before them.
  template <class Team>
  PRUNED_HD std::int64_t latest_post(Team& team) const {
    const PartnerTime& own = job_.times[item_.partner];
    std::int64_t latest = heads_.at(team, item_.partner) - own.before;
    for (int p = 0; p < job_.partners; ++p) {
      if (job_.times[p].order >= 0 && job_.times[p].order < own.order) {
        latest = std::max(latest, heads_.at(team, p) - job_.times[p].before);
      }
    }
    return latest;
  }

  const MessageJob& job_;
  const MessageItem& item_;
  ByteRange part_;
  int channel_;
  Heads heads_;
};

template <class Team>
PRUNED_HD void run_message(Team& team, const MessageJob& job, int index, int channel) {
  if (job.first && index == 0 && channel == 0 && team.leads()) {
    show_post(team, job.shown, job.op);
  }
  MessagePart(job, index, channel).run(team);
  team.settle();
  if (team.leads()) {
    const MessageItem& item = job.items[index];
    const auto number = static_cast<std::uint64_t>(job.number);
    if (channel == 0) {
      Tally& tally = job.progress->of(number);
      team.add(&tally.moved[0], std::uint64_t{item.sends ? 1U : 0U});
      team.add(&tally.moved[item.sends ? 1 : 2], static_cast<std::uint64_t>(item.bytes));
    }
    finish(team, *job.progress, static_cast<std::uint32_t>(job.count * job.channels), job.last, job.shown, job.op,
           job.entry, number);
  }
}

}  // namespace pruned::device
