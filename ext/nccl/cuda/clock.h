// What lies between a device's timer and CLOCK_MONOTONIC.

#pragma once

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

  /// Asks the device some times, and takes the answer that came fastest.
  void calibrate();
  /// What is added to the device's time, in ns.
  const std::atomic<std::int64_t>& offset() const { return offset_; }

 private:
  std::int64_t await(std::int64_t& word) const;

  int device_;
  PinnedMemory words_;
  cudaStream_t stream_ = nullptr;
  std::atomic<std::int64_t> offset_ = 0;
};

}  // namespace pruned::device
