#include "address_space.h"

#include <algorithm>
#include <iterator>

namespace residency {
namespace {

constexpr std::size_t kBlock = std::size_t{32} << 20;
/// Addresses cost nothing: one reservation that the memory of any device fits in, with room for what lies between.
constexpr std::size_t kReserved = std::size_t{1} << 40;

}  // namespace

DevicePointer AddressSpace::take(std::size_t bytes) {
  const auto fits = [&](const auto& range) { return range.second >= bytes; };
  for (;;) {
    for (auto& [block, gaps] : gaps_) {
      const auto gap = std::find_if(gaps.begin(), gaps.end(), fits);
      if (gap != gaps.end()) {
        return cut(gaps, gap, gap->first, bytes);
      }
    }
    add_block(bytes);
  }
}

void AddressSpace::give_back(DevicePointer start, std::size_t bytes) {
  const auto block = std::prev(blocks_.upper_bound(start));
  const auto gap = join(gaps_[block->first], start, bytes);
  if (gap->second == block->second) {
    join(unused_, block->first, block->second);
    gaps_.erase(block->first);
    blocks_.erase(block);
  }
}

void AddressSpace::add_block(std::size_t bytes) {
  const std::size_t size = (bytes + kBlock - 1) / kBlock * kBlock;
  const auto fits = [&](const auto& range) { return range.second >= size; };
  auto highest = std::find_if(unused_.rbegin(), unused_.rend(), fits);
  if (highest == unused_.rend()) {
    reserve(size);
    highest = std::find_if(unused_.rbegin(), unused_.rend(), fits);
  }
  const auto range = std::prev(highest.base());
  const DevicePointer start = cut(unused_, range, range->first + range->second - size, size);
  blocks_[start] = size;
  gaps_[start] = {{start, size}};
}

void AddressSpace::reserve(std::size_t bytes) {
  const std::size_t size = std::max(bytes, kReserved);
  DevicePointer start = 0;
  RESIDENCY_CHECK(cuMemAddressReserve(&start, size, kBlock, 0, 0));
  join(unused_, start, size);
}

/// Takes a part out of a range; returns where it starts.
DevicePointer AddressSpace::cut(Ranges& ranges, Ranges::iterator from, DevicePointer start, std::size_t bytes) {
  const auto [first, size] = *from;
  ranges.erase(from);
  if (start > first) {
    ranges.emplace(first, start - first);
  }
  if (start + bytes < first + size) {
    ranges.emplace(start + bytes, first + size - start - bytes);
  }
  return start;
}

/// Adds a range to those that it may touch; returns what it is part of then.
AddressSpace::Ranges::iterator AddressSpace::join(Ranges& ranges, DevicePointer start, std::size_t bytes) {
  auto next = ranges.lower_bound(start);
  if (next != ranges.end() && start + bytes == next->first) {
    bytes += next->second;
    next = ranges.erase(next);
  }
  if (next != ranges.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == start) {
      before->second += bytes;
      return before;
    }
  }
  return ranges.emplace(start, bytes).first;
}

}  // namespace residency
