#include <algorithm>

#include "activity.h"

namespace pruned {
namespace {

// A sleep may end this much late, so the end of a wait for a time is spent awake.
constexpr std::int64_t kWakeLatency = 200 * kMicrosecond;

/// Waits for a ring, or the activity's own time; false if a signal ended the wait.
bool wait(const Activity& activity, Bell& bell, std::uint32_t seen, std::int64_t end, Wakes& wakes) {
  wakes.settle();
  const std::int64_t due = std::min(activity.due(), end);
  if (!bell.wait(seen, due - kWakeLatency)) {
    return false;
  }
  bell.watch(seen, due);
  return true;
}

}  // namespace

bool drive(Activity& activity, Bell& bell, const Directory& directory) {
  const std::int64_t end = now() + kTurn;
  Wakes wakes;
  while (true) {
    directory.check();
    const std::uint32_t seen = bell.rings();
    const bool moved = activity.advance();
    if (activity.done()) {
      return true;
    }
    if (!moved && !wait(activity, bell, seen, end, wakes)) {
      return false;
    }
    if (now() >= end) {
      activity.verify();
      return false;
    }
  }
}

}  // namespace pruned
