// What lies between a device's timer and CLOCK_MONOTONIC.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include <cuda_runtime_api.h>

#include "memory.h"

namespace pruned::device {

class DeviceClock {
 public:
  explicit DeviceClock(int device);
  ~DeviceClock();
  DeviceClock(const DeviceClock&) = delete;
  DeviceClock& operator=(const DeviceClock&) = delete;

  /// Asks the device as often as answers are remembered.
  void set();
  /// Asks it once, beside what it does; of the answers that are remembered the one that came fastest counts.
  void ask();
  /// What is added to the device's time, in ns.
  const std::atomic<std::int64_t>& offset() const { return offset_; }

 private:
  struct Answer {
    std::int64_t took, offset;
  };

  std::int64_t await(std::int64_t& word) const;

  int device_;
  PinnedMemory words_;
  cudaStream_t stream_ = nullptr;
  std::array<Answer, 16> answers_;
  std::size_t asked_ = 0;
  std::atomic<std::int64_t> offset_ = 0;
};

}  // namespace pruned::device
