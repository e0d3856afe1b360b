// The threads that carry out one party's part in one channel, and how they wait and publish.
//
// Parties are written over a team, so that the same source is a kernel's CTA (device_team.cuh) and, with one thread,
// what the tests run without a GPU (host_team.h). A team has
//   waits()                 whether this thread is one of those that wait for all, of which one leads();
//   index(), kCount         which share of an array is this thread's;
//   seen(count)             who waits: what a count is now;
//   spin(watch, target)     who waits: until the watched count is that high; the same of two;
//   wait_until(time)        who waits: until that time of CLOCK_MONOTONIC, in ns;
//   now()                   that time;
//   meet()                  a step begins once all is there that was waited for; false if the operation was aborted;
//   gather()                all are here; moves() is room that all of them see;
//   post(notes)             the step ends here, and is published once all have ended it;
//   settle()                at the end: the last step too has ended, and is published;
//   stopped(), look(turn)   for who spins on its own: whether it was aborted, and a look at that now and then;
//   load, add, take (leaves 0), load_shown, show, load_line, store_line: memory that others read or write;
//   show_last(word, value)  after all that was written before.

#pragma once

#include <cstdint>

#include "hd.h"

namespace pruned::device {

/// A count that another party writes, and the highest that was seen of it.
struct Watch {
  const std::uint64_t* count = nullptr;
  std::uint64_t seen = 0;
};

/// What is published after a step; null: nothing.
struct Note {
  std::uint64_t* count = nullptr;
  std::uint64_t value = 0;
};

struct Notes {
  Note head = {};       // slots are free again: nothing was written for it
  Note tail = {};       // a slot is filled
  Note progress = {};   // for another party of the same process
  bool ordered = true;  // what was written before has to be seen first
};

}  // namespace pruned::device
