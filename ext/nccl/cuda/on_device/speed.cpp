#include "speed.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "../../tests/harness.h"
#include "session.h"

namespace pruned::device::on_device {
namespace {

constexpr int kRuns = 12;

/// The best of some all_reduces in place, ms; what virtual members bring is read ahead for each.
void measure(int size, std::int64_t bytes, int channels, Dtype dtype) {
  const pruned::testing::TemporaryDirectory directory;
  const auto begun = std::chrono::steady_clock::now();
  Session session(directory.path(), size, size / 2, {size / 2}, static_cast<int>(Mode::kExact), 3 * bytes, channels);
  const std::int64_t count = bytes / static_cast<std::int64_t>(itemsize(dtype));
  const std::vector<std::byte> zeros(static_cast<std::size_t>(bytes));
  const prism_device_part part = session.part(&zeros);
  for (int i = 0; i < kRuns; ++i) {
    prism_device_op op{};
    op.kind = static_cast<int>(Kind::kAllReduce);
    op.dtype = static_cast<int>(dtype);
    op.reduce = static_cast<int>(Reduce::kSum);
    op.root = -1;
    op.count = count;
    op.head = op.final = part;
    session.plan(op);
  }
  session.start();
  const double init = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  const DeviceMemory data = device_memory(bytes);
  cudaEvent_t events[2];
  float best = 1e9F;
  for (cudaEvent_t& event : events) {
    PRUNED_CUDA(cudaEventCreate(&event));
  }
  cudaStream_t stream;
  PRUNED_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int i = 0; i < kRuns; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50 + bytes / (1 << 20) / 4));  // payloads are there by then
    PRUNED_CUDA(cudaEventRecord(events[0], stream));
    const Work work{.kind = Kind::kAllReduce, .dtype = dtype, .reduce = Reduce::kSum, .count = count,
                    .input = data.get(), .output = data.get()};
    if (session.group().launch(work, stream) != Verdict::kFine) {
      throw Failure(session.group().text());
    }
    PRUNED_CUDA(cudaEventRecord(events[1], stream));
    session.finish();
    float ms = 0;
    PRUNED_CUDA(cudaEventElapsedTime(&ms, events[0], events[1]));
    best = std::min(best, ms);
  }
  prism_device_figures figures;
  expect(prism_device_measure(&figures));
  const double steps = 2.0 * (size - 1), sent = steps / size * static_cast<double>(bytes);
  std::printf("%6d %12ld %8d %6d %10.3f %10.2f %10.1f %8.2f %8.1f %6ld\n", size, static_cast<long>(bytes),
              static_cast<int>(dtype), channels, static_cast<double>(best), static_cast<double>(best) * 1e3 / steps,
              sent / static_cast<double>(best) / 1e6, init, static_cast<double>(figures.fifos) / 1e6,
              static_cast<long>(figures.stalls));
  std::fflush(stdout);
}

}  // namespace

void measure_speed(int channels) {
  std::printf("%6s %12s %8s %6s %10s %10s %10s %8s %8s %6s\n", "N", "bytes", "dtype", "CTAs", "ms", "us/step", "GB/s",
              "init s", "FIFO MB", "stalls");
  measure(8, 134'217'728, channels, Dtype::kFloat32);
  measure(2, 134'217'728, channels, Dtype::kFloat32);
  measure(64, 134'217'728, channels, Dtype::kFloat32);
  measure(1024, 1024 * 512, channels, Dtype::kFloat32);
  measure(1024, 1024 * 8, channels, Dtype::kFloat32);
  measure(1024, 1024 * 65'536, channels, Dtype::kFloat32);
  measure(8, 8 * 512, channels, Dtype::kFloat32);
  measure(8192, 8192 * 512, channels, Dtype::kFloat32);
  measure(8, 134'217'728, channels, Dtype::kBfloat16);
}

}  // namespace pruned::device::on_device
