// A FIFO between two parties on devices: for each channel 8 slots, in memory of the receiver's device.
//
// A slice goes into a slot and is published by a count, `tail`, or, if it is small, in lines of 16 bytes that each
// carry 8 bytes and the count of their slice, so that who reads them needs no other flag. The receiver publishes how
// many it has taken, `head`. Counts run on from operation to operation; only one party writes each.
//
// A look at memory of another device takes as long as a small step. So where both ends are of one process the sender has
// credits, memory of its own device: the receiver publishes there, and what an end begins an operation with is near it.

#pragma once

#include <cstddef>
#include <cstdint>

#include "hd.h"

namespace pruned::device {

constexpr int kMaxChannels = 32;
constexpr std::uint64_t kSlotCount = 8;
constexpr int kSlotShift = 19;
constexpr int kLineSlotShift = 12;
constexpr std::int64_t kSlotSize = 1 << kSlotShift;          // bytes
constexpr std::int64_t kLineSlotSize = 1 << kLineSlotShift;  // bytes of data in lines, a slot

/// 8 bytes of data and, twice, the low half of the count of their slice, which is never 0.
struct alignas(16) Line {
  std::uint32_t first, first_mark, second, second_mark;
};

/// What the two ends tell each other of one channel, on cache lines of their own.
struct FifoCounts {
  alignas(128) std::uint64_t tail;
  alignas(128) std::uint64_t head;
};

/// Of one channel, in memory of the sender's device.
struct FifoCredits {
  alignas(128) std::uint64_t head;  // published by the receiver
  alignas(128) std::uint64_t tail;  // the sender's own count, between operations
};

struct FifoChannel {
  FifoCounts counts;
  alignas(128) Line lines[kSlotCount][kLineSlotSize / 8];
  alignas(128) std::byte slots[kSlotCount][kSlotSize];
};

/// Bytes of a FIFO of so many channels; all zeros is an empty one.
constexpr std::int64_t fifo_bytes(int channels) { return channels * static_cast<std::int64_t>(sizeof(FifoChannel)); }

}  // namespace pruned::device
