// Where segments lie: address ranges of the device, in the order in which cudaMalloc would place them.
//
// The order matters. torch's caching allocator takes, of free blocks of one size, the one at the lowest address, so
// another order leads to other splits, and to another max_memory_reserved (by 2.8 % where addresses ascend). As seen on
// driver 580: cudaMalloc divides blocks of a multiple of 32 MiB, takes the first gap in them that is large enough, the
// lowest first, else a new block below all others or, if one that has gone left enough room, there, the highest first.

#pragma once

#include <cstddef>
#include <map>

#include "driver.h"

namespace residency {

class AddressSpace {
 public:
  /// A range of `bytes`, a multiple of the granularity; nothing is mapped in it. Throws Failure.
  DevicePointer take(std::size_t bytes);
  void give_back(DevicePointer start, std::size_t bytes);

 private:
  /// Ranges by their start, never two that touch.
  using Ranges = std::map<DevicePointer, std::size_t>;

  static DevicePointer cut(Ranges& ranges, Ranges::iterator from, DevicePointer start, std::size_t bytes);
  static Ranges::iterator join(Ranges& ranges, DevicePointer start, std::size_t bytes);
  void add_block(std::size_t bytes);
  void reserve(std::size_t bytes);

  Ranges unused_;                                // addresses in no block
  std::map<DevicePointer, std::size_t> blocks_;  // by start; they may touch
  std::map<DevicePointer, Ranges> gaps_;         // in each block
};

}  // namespace residency
