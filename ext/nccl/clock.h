// The one clock of all parties: nanoseconds of CLOCK_MONOTONIC, which the processes of a host share. Where parties are on
// several hosts, each process is told how far the clock that they agree on is ahead of its own.

#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>
#include <limits>

namespace pruned {

constexpr std::int64_t kMicrosecond = 1000;
constexpr std::int64_t kMillisecond = 1000 * kMicrosecond;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

/// A call into the engine gives control back this often, so that its caller can be stopped.
constexpr std::int64_t kTurn = 50 * kMillisecond;

inline std::atomic<std::int64_t> clock_ahead{0};

/// How much before its time a virtual party here lets go of a slice, for the way to another host: there it is held.
inline std::atomic<std::int64_t> clock_lead{0};

inline std::int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec + clock_ahead.load(std::memory_order_relaxed);
}

/// When what is due at this time is let go.
inline std::int64_t let_go(std::int64_t due) { return due - clock_lead.load(std::memory_order_relaxed); }

}  // namespace pruned
