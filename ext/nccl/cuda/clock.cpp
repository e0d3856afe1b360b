#include "clock.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <limits>

#include "check.h"
#include "kernels.h"

namespace pruned::device {
namespace {

// The driver is asked whether the stream has failed so rarely: whoever asks keeps others from launching.
constexpr auto kBetweenQueries = std::chrono::milliseconds(20);
constexpr std::int64_t kLongest = 50'000'000;  // ns: a question that takes longer is let go

std::int64_t monotonic() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

/// A stream whose kernels need not wait for those of others to have all their blocks begun.
cudaStream_t urgent_stream() {
  int least = 0, greatest = 0;
  PRUNED_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream = nullptr;
  PRUNED_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  return stream;
}

}  // namespace

DeviceClock::DeviceClock(int device) : device_(device) {
  const OnDevice there(device_);
  words_ = pinned_memory(64);
  stream_ = urgent_stream();
  answers_.fill({.took = std::numeric_limits<std::int64_t>::max(), .offset = 0});
}

DeviceClock::~DeviceClock() { cudaStreamDestroy(stream_); }

/// Until the device has written it; 0 if it has failed.
std::int64_t DeviceClock::await(std::int64_t& word) const {
  auto next = std::chrono::steady_clock::now() + kBetweenQueries;
  std::int64_t value = 0;
  while ((value = std::atomic_ref(word).load()) == 0) {
    if (std::chrono::steady_clock::now() < next) {
      continue;
    }
    if (cudaStreamQuery(stream_) != cudaErrorNotReady) {
      return std::atomic_ref(word).load();
    }
    next += kBetweenQueries;
  }
  return value;
}

void DeviceClock::set() {
  for (std::size_t i = 0; i < answers_.size(); ++i) {
    ask();
  }
}

void DeviceClock::ask() {
  const OnDevice there(device_);
  auto* answer = reinterpret_cast<std::int64_t*>(words_.get() + 32);
  std::atomic_ref(answer[0]).store(0);
  std::atomic_ref(answer[1]).store(0);
  begin();
  launch_clock(&told(), answer, stream_);
  await(answer[1]);
  const std::int64_t begun = monotonic();
  std::atomic_ref(told()).store(1);
  const std::int64_t time = await(answer[0]);
  const std::int64_t ended = monotonic();
  PRUNED_CUDA(cudaStreamSynchronize(stream_));
  if (end() && time != 0) {
    answers_[asked_++ % answers_.size()] = {.took = ended - begun, .offset = begun + (ended - begun) / 2 - time};
    offset_ = std::ranges::min(answers_, {}, &Answer::took).offset;
  }
}

void DeviceClock::begin() {
  const std::lock_guard lock(mutex_);
  std::atomic_ref(told()).store(0);
  since_ = monotonic();
  let_go_ = false;
}

/// Whether the answer counts.
bool DeviceClock::end() {
  const std::lock_guard lock(mutex_);
  since_ = 0;
  return !let_go_;
}

void DeviceClock::let_go() {
  const std::lock_guard lock(mutex_);
  if (since_ != 0 && monotonic() - since_ > kLongest) {
    let_go_ = true;
    std::atomic_ref(told()).store(1);
  }
}

}  // namespace pruned::device
