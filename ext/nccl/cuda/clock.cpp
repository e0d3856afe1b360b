#include "clock.h"

#include <ctime>
#include <limits>

#include "check.h"
#include "kernels.h"

namespace pruned::device {
namespace {

constexpr int kQuestions = 16;

std::int64_t monotonic() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

}  // namespace

/// Until the device has written it; 0 if it has failed.
std::int64_t DeviceClock::await(std::int64_t& word) const {
  std::int64_t value = 0;
  while ((value = std::atomic_ref(word).load()) == 0 && cudaStreamQuery(stream_) == cudaErrorNotReady) {
  }
  return value != 0 ? value : std::atomic_ref(word).load();
}

DeviceClock::DeviceClock(int device) : device_(device) {
  const OnDevice there(device_);
  words_ = pinned_memory(64);
  PRUNED_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
}

DeviceClock::~DeviceClock() { cudaStreamDestroy(stream_); }

void DeviceClock::calibrate() {
  const OnDevice there(device_);
  auto* asked = reinterpret_cast<std::uint32_t*>(words_.get());
  auto* answer = reinterpret_cast<std::int64_t*>(words_.get() + 32);
  std::int64_t fastest = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < kQuestions; ++i) {
    std::atomic_ref(*asked).store(0);
    std::atomic_ref(answer[0]).store(0);
    std::atomic_ref(answer[1]).store(0);
    launch_clock(asked, answer, stream_);
    await(answer[1]);
    const std::int64_t begun = monotonic();
    std::atomic_ref(*asked).store(1);
    const std::int64_t time = await(answer[0]);
    const std::int64_t ended = monotonic();
    PRUNED_CUDA(cudaStreamSynchronize(stream_));
    if (time != 0 && ended - begun < fastest) {
      fastest = ended - begun;
      offset_ = begun + (ended - begun) / 2 - time;
    }
  }
}

}  // namespace pruned::device
