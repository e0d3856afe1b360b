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

  PRUNED_HD static End of_sender(FifoChannel* channel) {
    return {channel, channel->counts.tail, {&channel->counts.head, 0}};
  }
  PRUNED_HD static End of_receiver(FifoChannel* channel) {
    return {channel, channel->counts.head, {&channel->counts.tail, 0}};
  }
  PRUNED_HD std::byte* slot() const { return channel->slots[count % kSlotCount]; }
  PRUNED_HD Line* line() const { return channel->lines[count % kSlotCount]; }
  /// What the receiver must have taken before the next slice goes.
  PRUNED_HD std::uint64_t room() const { return count < kSlotCount ? 0 : count + 1 - kSlotCount; }
  PRUNED_HD std::uint32_t mark() const { return static_cast<std::uint32_t>(count) + 1; }
};

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
    notes.head = {&step.in->channel->counts.head, ++step.in->count};
  }
  if (step.out != nullptr) {
    notes.tail = {&step.out->channel->counts.tail, ++step.out->count};
  }
  return team.post(notes);
}

}  // namespace pruned::device
