// Members that bring the same row, one after the other round a ring: what is added once, so many times.

#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "payload_rows.h"

namespace prism {

using Places = std::pair<int64_t, int64_t>;  // of rows, in the order in which they are added: first, end

// Places next to each other whose rows are the same one, and which each sum has all or none of.
struct Run {
  int64_t place, row, times;
};

class RingRuns {
 public:
  // `left_out`: for each partial sum, which rows it is without.
  RingRuns(const std::vector<Row>& rows, const std::vector<std::vector<bool>>& left_out)
      : size_(static_cast<int64_t>(rows.size())), length_(rows.size(), 1) {
    const auto alike = [&](int64_t a, int64_t b) {
      return rows[a] == rows[b] &&
             std::all_of(left_out.begin(), left_out.end(), [=](const auto& out) { return out[a] == out[b]; });
    };
    for (int64_t at = 2 * size_ - 1; at-- > 0;) {  // twice round, for what goes on from the last row to the first
      const int64_t row = at % size_, next = (at + 1) % size_;
      length_[row] = alike(row, next) ? std::min(length_[next] + 1, size_) : 1;
    }
  }

  // Those of a sum that ends with the row `owner`; none goes across the bounds of a partial sum's places.
  std::vector<Run> of(int64_t owner, const std::vector<Places>& bounds) const {
    std::vector<Run> runs;
    for (int64_t place = 0; place < size_; place += runs.back().times) {
      const int64_t row = (owner + 1 + place) % size_;
      int64_t end = std::min(place + length_[row], size_);
      for (const auto& [first, last] : bounds) {
        for (const auto bound : {first, last}) {
          end = bound > place ? std::min(end, bound) : end;
        }
      }
      runs.push_back({place, row, end - place});
    }
    return runs;
  }

 private:
  int64_t size_;
  std::vector<int64_t> length_;  // rows: how many from it on are the same, round the ring
};

}  // namespace prism
