// The same for small slices, which go in lines: each thread waits for its own lines, and for nobody else.

#pragma once

#include "../cut.h"
#include "fifo_memory.h"
#include "merge.h"

namespace pruned::device {

/// Null: the slice does not come, or go, in lines. Where one comes it is the first operand.
struct LineEnds {
  const Line* in = nullptr;
  std::uint32_t in_mark = 0;
  Line* out = nullptr;
  std::uint32_t out_mark = 0;
};

constexpr int kLineBytes = 8;

/// What a line carries: elements of T, as far as there are any.
template <class T>
struct Lane {
  T at[kLineBytes / sizeof(T)];
};

template <class T>
PRUNED_HD inline Lane<T> load_lane(const T* from, int count, T otherwise) {
  Lane<T> lane;
PRUNED_UNROLL
  for (int i = 0; i < static_cast<int>(kLineBytes / sizeof(T)); ++i) {
    lane.at[i] = from != nullptr && i < count ? from[i] : otherwise;
  }
  return lane;
}

template <class Team>
PRUNED_HD inline Line receive_line(Team& team, const Line* in, std::uint32_t mark) {
  Line line = team.load_line(in);
  for (unsigned turn = 1; (line.first_mark != mark || line.second_mark != mark) && !team.stopped(); ++turn) {
    team.look(turn);
    line = team.load_line(in);
  }
  return line;
}

template <class T>
PRUNED_HD inline Lane<T> lane_of(const Line& line) {
  return std::bit_cast<Lane<T>>(std::uint64_t{line.first} | std::uint64_t{line.second} << 32);
}

template <class T>
PRUNED_HD inline Line line_of(const Lane<T>& lane, std::uint32_t mark) {
  const auto bits = std::bit_cast<std::uint64_t>(lane);
  return {static_cast<std::uint32_t>(bits), mark, static_cast<std::uint32_t>(bits >> 32), mark};
}

/// The `i`-th line of a piece.
template <class T, class Team>
PRUNED_HD inline void merge_line(Team& team, const Rule& rule, const Piece& piece, const LineEnds& ends,
                                 int i) {
  constexpr int kEach = kLineBytes / sizeof(T);
  const int at = i * kEach, count = static_cast<int>(piece.bytes) / static_cast<int>(sizeof(T)) - at;
  const T nothing = filler<T>(rule.reduce);
  const T* second = piece.second != nullptr ? reinterpret_cast<const T*>(piece.second) + at : nullptr;
  const T* first = piece.first != nullptr ? reinterpret_cast<const T*>(piece.first) + at : nullptr;
  const Lane<T> added = load_lane(second, count, nothing);  // while the line is on its way
  Lane<T> lane =
      ends.in != nullptr ? lane_of<T>(receive_line(team, ends.in + i, ends.in_mark)) : load_lane(first, count, nothing);
PRUNED_UNROLL
  for (int k = 0; k < kEach; ++k) {
    lane.at[k] = value_of<T>(rule, lane.at[k], second != nullptr ? &added.at[k] : nullptr);
  }
  if (ends.out != nullptr) {
    team.store_line(ends.out + i, line_of(lane, ends.out_mark));
  }
  T* store = reinterpret_cast<T*>(piece.store) + at;
  for (int k = 0; piece.store != nullptr && k < kEach && k < count; ++k) {
    store[k] = lane.at[k];
  }
}

template <class T, class Team>
PRUNED_APART PRUNED_HD void merge_lines(Team& team, const Rule& rule, const Piece& piece, const LineEnds& ends) {
  const int bytes = static_cast<int>(piece.bytes);
  const int lines = bytes > kLineBytes ? (bytes + kLineBytes - 1) / kLineBytes : 1;  // an empty slice has one
  for (int i = team.index(); i < lines; i += Team::kCount) {
    merge_line<T>(team, rule, piece, ends, i);
  }
}

}  // namespace pruned::device
