// The engine's kernels on the fake CUDA: a thread for each CTA.

#include <thread>
#include <vector>

#include "../../dtypes.h"
#include "../../host_team.h"
#include "../../kernels.h"
#include "../../message_parts.h"
#include "../../ring_parts.h"
#include "fake_cuda.h"

namespace pruned::device {
namespace {

/// `body(channel, index)` for each CTA of a grid, at one time.
template <class Body>
void run_grid(int channels, int count, const Body& body) {
  std::vector<std::thread> threads;
  for (int index = 0; index < count; ++index) {
    for (int channel = 0; channel < channels; ++channel) {
      threads.emplace_back([&body, channel, index] { body(channel, index); });
    }
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace

void launch_ring(const RingJob& job, int first, int count, cudaStream_t stream) {
  fake_cuda::launch(stream, [job, first, count] {
    run_grid(job.channels, count, [&](int channel, int index) {
      HostTeam team(job.shown.aborted);
      with_type(reduces(job.outline.kind) ? job.dtype : Dtype::kUint8,
                [&]<class T>(T*) { run_ring<T>(team, job, static_cast<Party>(first + index), channel); });
    });
  });
}

void launch_messages(const MessageJob& job, cudaStream_t stream) {
  fake_cuda::launch(stream, [job] {
    run_grid(job.channels, job.count, [&](int channel, int index) {
      HostTeam team(job.shown.aborted);
      run_message(team, job, index, channel);
    });
  });
}

void launch_clock(const std::uint32_t* asked, std::int64_t* time, cudaStream_t stream) {
  fake_cuda::launch(stream, [asked, time] {
    std::atomic_ref(time[1]).store(1);
    while (std::atomic_ref(*const_cast<std::uint32_t*>(asked)).load() == 0) {
      std::this_thread::yield();
    }
    std::atomic_ref(time[0]).store(HostTeam(nullptr).now() + fake_cuda::timers_ahead());
  });
}

void load_kernels() {}

}  // namespace pruned::device
