// The steps of a party, worked out ahead: what each moves and where, many at a time, a thread for each.
//
// Worked out one by one, between a step and the next, they would take longer than small steps do.

#pragma once

#include "exchange.h"

namespace pruned::device {

/// One step. Addresses are those of the first byte; null: there is none.
struct Move {
  const std::byte* first = nullptr;  // what is sent or stored, if nothing comes in
  const std::byte* second = nullptr;
  std::byte* store = nullptr;
  std::int32_t bytes = 0;
  std::int32_t copies = 1;  // of the last operand
  bool receives = false, sends = false;
  bool scales = false;   // the last operand, which is the member's own
  bool divides = false;  // the sum is complete
};

constexpr int kBatch = 256;  // steps

/// A part of a piece.
constexpr Piece piece_of(const Move& move, int from, int bytes) {
  return {.first = move.first != nullptr ? move.first + from : nullptr,
          .second = move.second != nullptr ? move.second + from : nullptr,
          .store = move.store != nullptr ? move.store + from : nullptr,
          .slot = nullptr,
          .bytes = bytes};
}

/// Sends, bytes sent, bytes received.
struct Moved {
  std::uint64_t counts[3] = {};

  PRUNED_HD void add(const Move& move) {
    counts[0] += move.sends ? 1 : 0;
    counts[1] += move.sends ? move.bytes : 0;
    counts[2] += move.receives ? move.bytes : 0;
  }
};

/// The rule of one step.
template <class Party>
PRUNED_HD inline Rule rule_of(const RingJob& job, const Party& party, const Move& move) {
  const bool on_second = move.second != nullptr;
  Rule rule{.reduce = job.rule.reduce};
  if (move.scales) {
    rule.factor = party.factor();
    rule.scales_first = !on_second;
    rule.scales_second = on_second;
  }
  (on_second ? rule.copies_second : rule.copies_first) = move.copies;
  if (move.divides) {
    rule.divisor = job.rule.divisor;
  }
  return rule;
}

/// One step, slice by slice.
template <class T, class Team, class Party>
PRUNED_HD bool carry_out_step(Team& team, const RingJob& job, Party& party, std::int64_t index, const Move& move,
                              End& in, End& out) {
  const int slice = static_cast<int>(job.lines ? kLineSlotSize : kSlotSize);
  const Rule rule = rule_of(job, party, move);
  if (team.waits()) {
    party.await(team, index);
  }
  for (int from = 0; from == 0 || from < move.bytes; from += slice) {
    const int bytes = move.bytes - from < slice ? move.bytes - from : slice, left = move.bytes - from - bytes;
    if (team.waits()) {
      party.await_slice(team, index, left, move.bytes);
    }
    const Step step{.in = move.receives ? &in : nullptr,
                    .out = move.sends ? &out : nullptr,
                    .piece = piece_of(move, from, bytes),
                    .progress = left == 0 ? party.progress(index) : Note{},
                    .wrote = party.wrote()};
    if (!exchange<T>(team, rule, job.lines, step)) {
      return false;
    }
  }
  return true;
}

/// Carries out all steps of a party, which has
///   steps();
///   move(step)                        what it moves, worked out by any thread;
///   await(team, step)                 who waits: until it may begin;
///   await_slice(team, step, left, bytes)   the same of a slice, behind which so much of the step's bytes is left;
///   progress(step), wrote()           what the end of the step tells others of the process, and whether of writing;
///   factor()                          of what is scaled.
/// What it moved is added to `moved`. False if the operation was aborted.
template <class T, class Team, class Party>
PRUNED_HD bool carry_out(Team& team, const RingJob& job, Party& party, End& in, End& out, Moved& moved) {
  for (std::int64_t begin = 0, all = party.steps(); begin < all; begin += kBatch) {
    const int count = static_cast<int>(std::min(all - begin, std::int64_t{kBatch}));
    Move* moves = team.moves();
    team.gather();
    for (int i = team.index(); i < count; i += Team::kCount) {
      moves[i] = party.move(begin + i);
    }
    team.gather();
    for (int i = 0; i < count; ++i) {
      if (!carry_out_step<T>(team, job, party, begin + i, moves[i], in, out)) {
        return false;
      }
      moved.add(moves[i]);
    }
  }
  if (team.leads()) {
    in.keep();
    out.keep();
  }
  return true;
}

}  // namespace pruned::device
