// Buffers that are used again, by sizes that are powers of two: fresh memory costs a page fault every 4 KiB.

#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace pruned {

class Pool {
 public:
  using Buffer = std::unique_ptr<std::byte[]>;

  /// A buffer of at least so many bytes, with any content.
  Buffer take(std::size_t bytes) {
    std::vector<Buffer>& free = of(bytes);
    if (free.empty()) {
      return std::make_unique_for_overwrite<std::byte[]>(std::bit_ceil(bytes));
    }
    Buffer buffer = std::move(free.back());
    free.pop_back();
    return buffer;
  }

  /// Gives back what was taken for so many bytes.
  void give(Buffer buffer, std::size_t bytes) { of(bytes).push_back(std::move(buffer)); }

 private:
  std::vector<Buffer>& of(std::size_t bytes) { return free_[std::bit_width(std::bit_ceil(bytes))]; }

  std::array<std::vector<Buffer>, 66> free_;
};

}  // namespace pruned
