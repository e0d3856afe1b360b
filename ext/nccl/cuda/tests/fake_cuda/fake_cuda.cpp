#include "fake_cuda.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <new>
#include <thread>

#include "cuda_runtime_api.h"

namespace fake_cuda {
namespace {

std::mutex mutex;  // of all that streams and events have
std::condition_variable changed;
bool held = false;
std::atomic<std::thread::id> holder;  // of the driver
std::atomic<bool> capturing = false;
std::atomic<long> copy_count = 0, allocated = 0, pending = 0, kept_count = 0;
std::atomic<std::int64_t> ahead = 0;
thread_local int device = 0;
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

constexpr std::align_val_t kAlign{256};

cudaError_t allowed() {
  return capturing && capture_mode != cudaStreamCaptureModeRelaxed ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

/// A call of a thread gets as far as this once no other thread's holds the driver.
void enter() {
  const auto is_free = [] { return holder.load() == std::thread::id{} || holder.load() == std::this_thread::get_id(); };
  if (is_free()) {
    return;
  }
  ++kept_count;
  while (!is_free()) {
    std::this_thread::yield();
  }
  --kept_count;
}

/// A word is written at once, so that a thread may look at it meanwhile.
void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, from, bytes);
    std::atomic_ref(*static_cast<std::uint64_t*>(to)).store(word, std::memory_order_release);
  } else {
    std::memcpy(to, from, bytes);
  }
}

void release(void* data) {
  if (data != nullptr) {
    ::operator delete(data, kAlign);
    --allocated;
  }
}

void set_held(bool to) {
  {
    const std::lock_guard lock(mutex);
    held = to;
  }
  changed.notify_all();
}

}  // namespace

Held::Held() { set_held(true); }
Held::~Held() { set_held(false); }
DriverHeld::DriverHeld() { holder = std::this_thread::get_id(); }
DriverHeld::~DriverHeld() { holder = std::thread::id{}; }
Capturing::Capturing() { capturing = true; }
Capturing::~Capturing() { capturing = false; }
void set_timers_ahead(std::int64_t ns) { ahead = ns; }
std::int64_t timers_ahead() { return ahead; }

long under_way() { return pending; }
long kept() { return kept_count; }
long copies() { return copy_count; }
long allocations() { return allocated; }

}  // namespace fake_cuda

struct CUevent_st {
  long recorded = 0, passed = 0;
};

struct CUstream_st {
  std::deque<std::function<void()>> tasks;
  bool working = false, ends = false;
  unsigned long long capture = 0;
  std::thread thread{[this] { run(); }};

  void run() {
    std::unique_lock lock(fake_cuda::mutex);
    for (;;) {
      fake_cuda::changed.wait(lock, [&] { return (ends && tasks.empty()) || (!fake_cuda::held && !tasks.empty()); });
      if (tasks.empty()) {
        return;
      }
      const std::function<void()> task = std::move(tasks.front());
      tasks.pop_front();
      working = true;
      lock.unlock();
      task();
      lock.lock();
      working = false;
      --fake_cuda::pending;
      fake_cuda::changed.notify_all();
    }
  }

  void put(std::function<void()> task) {
    ++fake_cuda::pending;
    {
      const std::lock_guard lock(fake_cuda::mutex);
      tasks.push_back(std::move(task));
    }
    fake_cuda::changed.notify_all();
  }
};

using namespace fake_cuda;

void fake_cuda::launch(cudaStream_t stream, std::function<void()> kernel) {
  enter();
  stream->put(std::move(kernel));
}
void fake_cuda::set_capture(cudaStream_t stream, unsigned long long capture) { stream->capture = capture; }

const char* cudaGetErrorString(cudaError_t error) {
  constexpr const char* kTexts[] = {"no error", "invalid device ordinal", "out of memory", "not while capturing", "not ready",
                                      "peer access is enabled"};
  return kTexts[error];
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaGetDevice(int* current) { return enter(), *current = device, cudaSuccess; }
cudaError_t cudaSetDevice(int number) {
  enter();
  if (number < 0 || number >= kDevices) {
    return cudaErrorInvalidDevice;
  }
  device = number;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return enter(), allowed(); }
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return allowed(); }
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  enter();
  std::swap(*mode, capture_mode);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  enter();
  *data = ::operator new(bytes, kAlign);
  ++allocated;
  return allowed();
}
cudaError_t cudaFree(void* data) {
  enter();
  release(data);
  return allowed();
}
cudaError_t cudaMallocAsync(void** data, std::size_t bytes, cudaStream_t) { return cudaMalloc(data, bytes); }
cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  enter();
  stream->put([data] { release(data); });
  return allowed();
}
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  enter();
  *data = ::operator new(bytes, kAlign);
  return allowed();
}
cudaError_t cudaFreeHost(void* data) { return enter(), ::operator delete(data, kAlign), allowed(); }
cudaError_t cudaHostRegister(void*, std::size_t, unsigned) { return enter(), allowed(); }
cudaError_t cudaHostUnregister(void*) { return allowed(); }
cudaError_t cudaHostGetDevicePointer(void** on_device, void* host, unsigned) { return *on_device = host, cudaSuccess; }
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* data) {
  std::memcpy(handle, &data, sizeof data);
  return allowed();
}
cudaError_t cudaIpcOpenMemHandle(void** data, cudaIpcMemHandle_t handle, unsigned) {
  std::memcpy(data, &handle, sizeof *data);
  return allowed();
}
cudaError_t cudaIpcCloseMemHandle(void*) { return allowed(); }

cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
  enter();
  std::memset(data, value, bytes);
  return allowed();
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  enter();
  copy(to, from, bytes);
  return allowed();
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  enter();
  stream->put([to, from, bytes] { copy(to, from, bytes); });
  ++copy_count;
  return allowed();
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  enter();
  *stream = new CUstream_st;
  return allowed();
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return allowed();
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  {
    const std::lock_guard lock(mutex);
    stream->ends = true;
  }
  changed.notify_all();
  stream->thread.join();
  delete stream;
  return allowed();
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  enter();
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return stream->tasks.empty() && !stream->working; });
  return allowed();
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  enter();
  const std::lock_guard lock(mutex);
  return stream->tasks.empty() && !stream->working ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  enter();
  long last = 0;
  {
    const std::lock_guard lock(mutex);
    last = event->recorded;
  }
  stream->put([event, last] {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return event->passed >= last; });
  });
  return allowed();
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  unsigned long long capture = 0;
  return cudaStreamGetCaptureInfo(stream, status, &capture);
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* capture) {
  *status = stream->capture != 0 ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  *capture = stream->capture;
  return allowed();
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  enter();
  *event = new CUevent_st;
  return allowed();
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, allowed(); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  enter();
  long number = 0;
  {
    const std::lock_guard lock(mutex);
    number = ++event->recorded;
  }
  stream->put([event, number] {
    const std::lock_guard lock(mutex);
    event->passed = std::max(event->passed, number);
  });
  return allowed();
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  enter();
  std::unique_lock lock(mutex);
  changed.wait(lock, [&, last = event->recorded] { return event->passed >= last; });
  return allowed();
}
