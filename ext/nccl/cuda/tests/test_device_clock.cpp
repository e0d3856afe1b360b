// How far a device's timer is from CLOCK_MONOTONIC is known at the start, and stays known where it changes.

#include <memory>
#include <thread>

#include "../../tests/check.h"
#include "../clock.h"
#include "fake_cuda/fake_cuda.h"
#include "tests.h"

namespace pruned::device::testing {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kNear = kSecond / 2;  // an answer takes less on the slowest machine
constexpr int kEnough = 16;

bool is_near(std::int64_t offset, std::int64_t expected) { return std::abs(offset - expected) < kNear; }

/// Whoever asks is kept from answering: the device goes on all the same, and the answer does not count.
void test_held(DeviceClock& clock) {
  const std::int64_t before = clock.offset();
  fake_cuda::set_timers_ahead(100 * kSecond);
  auto streams = std::make_unique<fake_cuda::Held>();
  std::thread asks([&] { clock.ask(); });
  while (fake_cuda::under_way() == 0) {
    std::this_thread::yield();
  }
  {
    const fake_cuda::DriverHeld held;
    while (fake_cuda::kept() == 0) {  // it asks whether the stream has failed
      std::this_thread::yield();
    }
    streams.reset();
    while (fake_cuda::under_way() > 0) {
      clock.let_go();
      std::this_thread::yield();
    }
  }
  asks.join();
  CHECK(clock.offset() == before, "what is let go does not count");
}

}  // namespace

void test_device_clock() {
  fake_cuda::set_timers_ahead(kSecond);
  DeviceClock clock(0);
  CHECK(clock.offset() == 0, "before anything was asked");
  clock.set();
  CHECK(is_near(clock.offset(), -kSecond), "at the start " + std::to_string(clock.offset()));
  fake_cuda::set_timers_ahead(3 * kSecond);
  for (int i = 0; i < kEnough; ++i) {
    clock.ask();
  }
  CHECK(is_near(clock.offset(), -3 * kSecond), "later " + std::to_string(clock.offset()));
  test_held(clock);
  fake_cuda::set_timers_ahead(0);
}

}  // namespace pruned::device::testing
