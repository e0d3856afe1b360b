// Where in a pool of device memory payloads lie: one behind the other, round and round, in the order of operations.

#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace pruned::device {

class RingPool {
 public:
  explicit RingPool(std::int64_t bytes) : bytes_(bytes) {}

  /// Where so many bytes fit, if they do now.
  std::optional<std::int64_t> take(std::int64_t bytes, std::int64_t entry) {
    if (taken_.empty()) {
      return bytes <= bytes_ ? placed(0, bytes, entry) : std::nullopt;
    }
    const std::int64_t first = taken_.front().begin, end = taken_.back().end;
    const bool wrapped = taken_.back().begin < first;
    if (!wrapped && bytes_ - end >= bytes) {
      return placed(end, bytes, entry);
    }
    if (!wrapped && first > bytes) {
      return placed(0, bytes, entry);
    }
    return wrapped && first - end > bytes ? placed(end, bytes, entry) : std::nullopt;
  }

  /// Gives back those at the front that are over.
  template <class Over>
  void give_back(Over over) {
    while (!taken_.empty() && over(taken_.front().entry)) {
      taken_.pop_front();
    }
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  struct Room {
    std::int64_t begin, end, entry;
  };

  std::optional<std::int64_t> placed(std::int64_t begin, std::int64_t bytes, std::int64_t entry) {
    taken_.push_back({begin, begin + bytes, entry});
    return begin;
  }

  std::int64_t bytes_;
  std::deque<Room> taken_;
};

}  // namespace pruned::device
