// Counters of bytes that threads share: what is held now and was held at most.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace prism {

class Gauge {
 public:
  void add(std::size_t bytes) { raise_peaks(current_.fetch_add(bytes) + bytes); }

  // Adds unless that would cross the limit, and never for a moment only: no thread is refused because another one is.
  bool add_within(std::size_t bytes, std::size_t limit, bool& is_peak) {
    std::size_t held = current_.load();
    do {
      if (bytes > limit || held > limit - bytes) return false;
    } while (!current_.compare_exchange_weak(held, held + bytes));
    is_peak = raise_peaks(held + bytes);
    return true;
  }

  void subtract(std::size_t bytes) { current_.fetch_sub(bytes); }
  std::size_t current() const { return current_.load(); }
  std::size_t peak() const { return peak_.load(); }

  // Zero first and then raise: bytes that another thread adds in between are counted by whichever of the two is later.
  void reset_peak() {
    peak_.store(0);
    raise(peak_, current_.load());
  }

  // The most that was held since the last lap; resets of the peak do not matter to it.
  std::size_t lap() {
    const std::size_t most = lap_.exchange(0);
    const std::size_t held = current_.load();
    raise(lap_, held);
    return std::max(most, held);
  }

 private:
  static bool raise(std::atomic<std::size_t>& peak, std::size_t value) {
    std::size_t seen = peak.load();
    while (seen < value) {
      if (peak.compare_exchange_weak(seen, value)) return true;
    }
    return false;
  }

  bool raise_peaks(std::size_t value) {
    raise(lap_, value);
    return raise(peak_, value);
  }

  std::atomic<std::size_t> current_{0};
  std::atomic<std::size_t> peak_{0};
  std::atomic<std::size_t> lap_{0};
};

}  // namespace prism
