// One segment: what cudaMalloc gave, an address range that stays and physical chunks behind it that come and go.

#pragma once

#include <cstddef>
#include <vector>

#include "driver.h"

namespace residency {

/// What one physical handle has at most. The driver opens each handle by itself, and waits for it, however many one
/// call is given: where others copy out, 1 ms (README.md). 128 MiB take three times that to copy, and are soon there.
constexpr std::size_t kChunk = std::size_t{128} << 20;

class Segment {
 public:
  /// Nothing is mapped yet; `bytes` is a multiple of the granularity.
  Segment(DevicePointer start, std::size_t bytes, int device);

  DevicePointer start() const { return start_; }
  std::size_t bytes() const { return bytes_; }
  std::size_t chunks() const { return physical_.size(); }
  DevicePointer chunk_start(std::size_t chunk) const { return start_ + chunk * kChunk; }
  std::size_t chunk_bytes(std::size_t chunk) const;
  bool mapped(std::size_t chunk) const { return physical_[chunk] != 0; }

  /// Whether the contents are in the host copy, not on the device.
  bool away = false;
  /// Where it begins in the host copy.
  std::size_t image_offset = 0;

  /// Put physical memory behind a chunk, which nothing can use until it is opened; false if the device has none left.
  bool map(std::size_t chunk);
  /// Map what is not mapped yet, and open it all; false if the device has no memory left for that.
  bool map_all();
  std::size_t mapped_bytes() const;
  /// Give up the physical memory of a chunk whose addresses are unmapped.
  void release(std::size_t chunk);
  void unmap_all();

 private:
  DevicePointer start_;
  std::size_t bytes_;
  int device_;
  std::vector<Physical> physical_;
};

/// Addresses that follow each other, of one or more chunks.
struct Range {
  DevicePointer start = 0;
  std::size_t bytes = 0;

  /// Whether the addresses begin where these end.
  bool meets(DevicePointer next) const { return bytes > 0 && start + bytes == next; }
};

/// Let the device use chunks that are mapped; false if it has no memory left for its page tables.
bool grant(Range range, int device);
void unmap(Range range);

/// What physical memory comes in multiples of.
std::size_t granularity(int device);

}  // namespace residency
