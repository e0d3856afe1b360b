// What lies between a device's timer and CLOCK_MONOTONIC.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

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
  /// Called by others now and then: ends a question whose asker has been kept from answering, or the device would wait
  /// for it for ever while a call of the program waits for the device. Calls nothing of CUDA.
  void let_go();
  /// What is added to the device's time, in ns.
  const std::atomic<std::int64_t>& offset() const { return offset_; }

 private:
  struct Answer {
    std::int64_t took, offset;
  };

  std::int64_t await(std::int64_t& word) const;
  std::uint32_t& told() const { return *reinterpret_cast<std::uint32_t*>(words_.get()); }
  void begin();
  bool end();

  int device_;
  PinnedMemory words_;
  cudaStream_t stream_ = nullptr;
  std::array<Answer, 16> answers_;
  std::size_t asked_ = 0;
  std::atomic<std::int64_t> offset_ = 0;
  std::mutex mutex_;
  std::int64_t since_ = 0;  // of the question that is under way; 0: there is none
  bool let_go_ = false;     // it, and so its answer does not count
};

}  // namespace pruned::device
