#include "kernels.h"

#include "check.h"
#include "device_team.cuh"
#include "dtypes.h"
#include "message_parts.h"
#include "ring_parts.h"

namespace pruned::device {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads, 1) ring_kernel(const __grid_constant__ RingJob job, int first) {
  __shared__ TeamMemory memory;
  DeviceTeam team(memory, job.shown.aborted, job.clock_offset, job.system);
  run_ring<T>(team, job, static_cast<Party>(first + static_cast<int>(blockIdx.y)), static_cast<int>(blockIdx.x));
}

__global__ void __launch_bounds__(kThreads, 1) message_kernel(const __grid_constant__ MessageJob job) {
  __shared__ TeamMemory memory;
  DeviceTeam team(memory, job.shown.aborted, job.clock_offset, true);
  run_message(team, job, static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x));
}

__global__ void clock_kernel(const volatile std::uint32_t* asked, volatile std::int64_t* time) {
  time[1] = 1;
  __threadfence_system();
  while (*asked == 0) {
  }
  std::int64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  time[0] = now;
  __threadfence_system();
}

template <class T>
const void* ring_kernel_of() {
  return reinterpret_cast<const void*>(&ring_kernel<T>);
}

/// What is only moved is moved as bytes.
const void* ring_kernel_of(const RingJob& job) {
  const void* kernel = nullptr;
  const bool known = with_type(reduces(job.outline.kind) ? job.dtype : Dtype::kUint8,
                               [&]<class T>(T*) { kernel = ring_kernel_of<T>(); });
  if (!known) {
    throw Failure("elements of type " + std::to_string(static_cast<int>(job.dtype)) + " cannot be reduced on a device");
  }
  return kernel;
}

void launch(const void* kernel, dim3 grid, int threads, void** arguments, cudaStream_t stream) {
  PRUNED_CUDA(cudaLaunchKernel(kernel, grid, dim3(threads), arguments, 0, stream));
}

}  // namespace

void launch_ring(const RingJob& job, int first, int count, cudaStream_t stream) {
  void* arguments[] = {const_cast<RingJob*>(&job), &first};
  launch(ring_kernel_of(job), dim3(job.channels, count), kThreads, arguments, stream);
}

void launch_messages(const MessageJob& job, cudaStream_t stream) {
  void* arguments[] = {const_cast<MessageJob*>(&job)};
  launch(reinterpret_cast<const void*>(&message_kernel), dim3(job.channels, job.count), kThreads, arguments, stream);
}

void launch_clock(const std::uint32_t* asked, std::int64_t* time, cudaStream_t stream) {
  void* arguments[] = {&asked, &time};
  launch(reinterpret_cast<const void*>(&clock_kernel), dim3(1), 1, arguments, stream);
}

void load_kernels() {
  cudaFuncAttributes attributes;
  for (int dtype = 0; dtype < 20; ++dtype) {
    with_type(static_cast<Dtype>(dtype),
              [&]<class T>(T*) { PRUNED_CUDA(cudaFuncGetAttributes(&attributes, ring_kernel_of<T>())); });
  }
  PRUNED_CUDA(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&message_kernel)));
  PRUNED_CUDA(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&clock_kernel)));
}

}  // namespace pruned::device
