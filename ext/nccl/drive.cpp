#include <algorithm>

#include "activity.h"

namespace pruned {
namespace {

// A caller gets control back this often, so that it can be stopped; and so often others' ends are looked for.
constexpr std::int64_t kTurn = 50 * kMillisecond;
// A sleep may end this much late, so the end of a wait is spent awake.
constexpr std::int64_t kWakeLatency = 200 * kMicrosecond;
// A partner that runs answers within this time; one that does not may need this very core.
constexpr std::int64_t kPatience = 20 * kMicrosecond;

/// Waits for a ring, or the activity's own time; false if a signal ended the wait.
bool wait(const Activity& activity, Bell& bell, std::uint32_t seen, std::int64_t end) {
  const std::int64_t due = std::min(activity.due(), end);
  const std::int64_t time = now();
  if (due - time <= kWakeLatency) {
    bell.watch(seen, due);
    return true;
  }
  return bell.watch(seen, time + kPatience) || bell.sleep(seen, due - kWakeLatency - time);
}

}  // namespace

bool drive(Activity& activity, Bell& bell, const Directory& directory) {
  const std::int64_t end = now() + kTurn;
  while (true) {
    directory.check();
    const std::uint32_t seen = bell.rings();
    const bool moved = activity.advance();
    if (activity.done()) {
      return true;
    }
    if (!moved && !wait(activity, bell, seen, end)) {
      return false;
    }
    if (now() >= end) {
      activity.verify();
      return false;
    }
  }
}

}  // namespace pruned
