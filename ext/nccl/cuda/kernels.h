// The engine's kernels, as the host launches them.

#pragma once

#include <cuda_runtime_api.h>

#include "job.h"
#include "message_job.h"

namespace pruned::device {

/// Parties `first` and after, `count` of them, on the current device. Throws Failure.
void launch_ring(const RingJob& job, int first, int count, cudaStream_t stream);
void launch_messages(const MessageJob& job, cudaStream_t stream);
/// Says that it is there in time[1]; writes the device's timer to time[0] as soon as `asked` is not 0.
void launch_clock(const std::uint32_t* asked, std::int64_t* time, cudaStream_t stream);

/// Loads all kernels on the current device: what is loaded while others wait on each other would wait for them.
void load_kernels();

}  // namespace pruned::device
