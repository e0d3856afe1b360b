// How calls of CUDA go that several threads make.
//
// Some calls of a program hold the driver until the device is idle: the first launch of a kernel, which loads it,
// cudaFree, cudaFreeHost, a kernel that needs more local memory. Until then no other thread's call returns, for most of them
// in whatever context it is (H200, driver 580.159).

#pragma once

#include <atomic>
#include <chrono>

namespace pruned::device {

class DriverCalls {
 public:
  /// A thread is in such calls as long as this lives.
  class Call {
   public:
    explicit Call(DriverCalls& calls) : calls_(calls) { ++calls_.under_way_; }
    ~Call() {
      ++calls_.returned_;
      --calls_.under_way_;
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    DriverCalls& calls_;
  };

  /// Whether some are under way and none has returned for long. One thread asks, again and again.
  bool stand_still() {
    const auto now = std::chrono::steady_clock::now();
    const long returned = returned_;
    if (under_way_ == 0 || returned != seen_) {
      seen_ = returned;
      since_ = now;
    }
    return now - since_ >= kLong;
  }

 private:
  static constexpr std::chrono::milliseconds kLong{20};

  std::atomic<long> under_way_ = 0, returned_ = 0;
  long seen_ = 0;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace pruned::device
