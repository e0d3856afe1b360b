#include <algorithm>

#include "activity.h"

namespace pruned {
namespace {

/// Waits for a ring, or the activity's own time; false if a signal ended the wait.
bool wait(const Activity& activity, Bell& bell, std::uint32_t seen, std::int64_t end, Wakes& wakes) {
  wakes.settle();
  return bell.wait_sharp(seen, std::min(activity.due(), end));
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
