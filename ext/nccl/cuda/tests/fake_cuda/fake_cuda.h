// What tests ask of the fake CUDA, and what it knows.

#pragma once

#include <cstdint>
#include <functional>

#include "cuda_runtime_api.h"

namespace fake_cuda {

/// Puts a kernel on a stream.
void launch(cudaStream_t stream, std::function<void()> kernel);
/// From here on the stream is in this capture; 0: in none. What is put on it is done all the same.
void set_capture(cudaStream_t stream, unsigned long long capture);

/// As long as this lives streams stand still: what is put on them waits.
class Held {
 public:
  Held();
  ~Held();
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
};

/// As long as this lives a call of the thread that made it holds the driver: those of other threads do not return.
class DriverHeld {
 public:
  DriverHeld();
  ~DriverHeld();
  DriverHeld(const DriverHeld&) = delete;
  DriverHeld& operator=(const DriverHeld&) = delete;
};

/// As long as this lives a thread of the program captures a graph: others that are not free to call CUDA are refused.
class Capturing {
 public:
  Capturing();
  ~Capturing();
  Capturing(const Capturing&) = delete;
  Capturing& operator=(const Capturing&) = delete;
};

/// How far devices' timers are ahead of CLOCK_MONOTONIC from here on, in ns.
void set_timers_ahead(std::int64_t ns);
std::int64_t timers_ahead();

/// What was put on streams and is not done.
long under_way();
/// Threads whose calls do not return as another one's holds the driver.
long kept();
/// Copies that were put on streams so far.
long copies();
/// Pieces of device memory that are taken now.
long allocations();

constexpr int kDevices = 2;

}  // namespace fake_cuda
