// One end of a FIFO, and one step through them: what came, what is added, and where it goes.

#pragma once

#include "job.h"
#include "merge_lines.h"
#include "team.h"

namespace pruned::device {

/// The own end of one channel of a FIFO.
struct End {
  FifoChannel* channel = nullptr;
  std::uint64_t count = 0;  // slices that went through
  Watch other;              // how far the other end is
  std::uint64_t* told = nullptr;  // where the other end looks
  std::uint64_t* kept = nullptr;  // what the next operation begins with, if that is another word

  PRUNED_HD static End of_sender(FifoChannel* channel, FifoCredits* credits) {
    FifoCounts& counts = channel->counts;
    return credits == nullptr ? End{channel, counts.tail, {&counts.head, 0}, &counts.tail}
                              : End{channel, credits->tail, {&credits->head, 0}, &counts.tail, &credits->tail};
  }
  PRUNED_HD static End of_receiver(FifoChannel* channel, FifoCredits* credits) {
    FifoCounts& counts = channel->counts;
    return credits == nullptr ? End{channel, counts.head, {&counts.tail, 0}, &counts.head}
                              : End{channel, counts.head, {&counts.tail, 0}, &credits->head, &counts.head};
  }
  /// At the end of an operation.
  PRUNED_HD void keep() const {
    if (kept != nullptr) {
      *kept = count;
    }
  }
  PRUNED_HD std::byte* slot() const { return channel->slots[count % kSlotCount]; }
  PRUNED_HD Line* line() const { return channel->lines[count % kSlotCount]; }
  /// What the receiver must have taken before the next slice goes.
  PRUNED_HD std::uint64_t room() const { return count < kSlotCount ? 0 : count + 1 - kSlotCount; }
  PRUNED_HD std::uint32_t mark() const { return static_cast<std::uint32_t>(count) + 1; }
};

/// Of a channel; null: there are none.
PRUNED_HD inline FifoCredits* credits_of(FifoCredits* credits, int channel) {
  return credits != nullptr ? credits + channel : nullptr;
}

/// What takes part in a step; null: nothing is received, or sent.
struct Step {
  End* in = nullptr;
  End* out = nullptr;
  Piece piece = {};  // `first` is what comes in, if anything does
  Note progress = {};
  bool wrote = false;  // what `progress` tells of was written, and has to be seen first
};

/// Who waits: until there is something to take, if that has to be waited for, and room for what is sent.
template <class Team>
PRUNED_HD inline void await_ends(Team& team, bool lines, const Step& step) {
  const bool takes = step.in != nullptr && !lines;
  if (takes && step.out != nullptr) {
    team.spin(step.in->other, step.in->count + 1, step.out->other, step.out->room());
  } else if (takes) {
    team.spin(step.in->other, step.in->count + 1);
  } else if (step.out != nullptr) {
    team.spin(step.out->other, step.out->room());
  }
}

PRUNED_HD inline LineEnds line_ends(const Step& step) {
  LineEnds ends;
  if (step.in != nullptr) {
    ends.in = step.in->line();
    ends.in_mark = step.in->mark();
  }
  if (step.out != nullptr) {
    ends.out = step.out->line();
    ends.out_mark = step.out->mark();
  }
  return ends;
}

/// One slice. All else has been waited for by now. False if the operation was aborted.
template <class T, class Team>
PRUNED_HD bool exchange(Team& team, const Rule& rule, bool lines, Step step) {
  if (team.waits()) {
    await_ends(team, lines, step);
  }
  if (!team.meet()) {
    return false;
  }
  Notes notes{.progress = step.progress, .ordered = step.wrote || (step.out != nullptr && !lines)};
  if (lines) {
    merge_lines<T>(team, rule, step.piece, line_ends(step));
  } else {
    step.piece.first = step.in != nullptr ? step.in->slot() : step.piece.first;
    step.piece.slot = step.out != nullptr ? step.out->slot() : nullptr;
    merge<T>(team, rule, step.piece);
  }
  if (step.in != nullptr) {
    notes.head = {step.in->told, ++step.in->count};
  }
  if (step.out != nullptr) {
    notes.tail = {step.out->told, ++step.out->count};
  }
  return team.post(notes);
}

}  // namespace pruned::device
