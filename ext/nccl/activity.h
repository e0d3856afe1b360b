// Everything that a party does is an activity: a state machine that moves as far as it can and never waits.
//
// So the rules of an algorithm are free of waiting, tests can walk through them without threads, and there is one place
// that waits.

#pragma once

#include <cstdint>

#include "bell.h"
#include "clock.h"
#include "directory.h"

namespace pruned {

/// What an activity has moved: what the algorithm of N ranks moves at this party.
struct Moved {
  std::int64_t sends = 0;  // steps in which it sent
  std::int64_t receives = 0;
  std::int64_t sent_bytes = 0;
  std::int64_t received_bytes = 0;

  bool operator==(const Moved&) const = default;
};

class Activity {
 public:
  Activity() = default;
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;
  virtual ~Activity() = default;

  /// Moves at most a slice in each direction; false if nothing can move until somebody rings, or a time is reached.
  virtual bool advance() = 0;
  virtual bool done() const = 0;
  /// The time at which something can move although nobody rings; kNever if there is none.
  virtual std::int64_t due() const { return kNever; }
  /// Throws PeerLost if those that it waits for have ended.
  virtual void verify() const {}

  const Moved& moved() const { return moved_; }

 protected:
  Moved moved_;
};

/// Advances the activity for a while (50 ms, or until a signal comes); whether it is done. Throws what it throws, and
/// Aborted.
bool drive(Activity& activity, Bell& bell, const Directory& directory);

}  // namespace pruned
