#include "payload_speed.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>

#include "../../tests/harness.h"
#include "../check.h"
#include "../prefetch.h"

namespace pruned::device::on_device {
namespace {

constexpr std::int64_t kBucket = 25 * 1024 * 1024;  // bytes, of DDP
constexpr int kBuckets = 32;
constexpr int kRuns = 3;

/// Seconds until the last one is there, in a pool that has room for all.
double seconds(const std::vector<Reading>& readings, int readers) {
  Prefetch prefetch(readings, 2 * kBuckets * kBucket, 0, readers, nullptr);
  const auto begun = std::chrono::steady_clock::now();
  prefetch.start();
  std::uint64_t ready = 0;
  while (ready == 0 && prefetch.trouble().empty()) {
    PRUNED_CUDA(cudaMemcpy(&ready, &prefetch.payloads()[kBuckets - 1].ready, sizeof ready, cudaMemcpyDefault));
  }
  if (ready == 0) {
    throw Failure(prefetch.trouble());
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

}  // namespace

void measure_payloads() {
  const pruned::testing::TemporaryDirectory folder;
  const std::string path = folder.path() / "payloads";
  const std::vector<char> bytes(2 * kBucket, 1);
  std::ofstream file(path, std::ios::binary);
  std::vector<Reading> readings;
  for (std::int64_t i = 0; i < kBuckets; ++i) {
    file.write(bytes.data(), 2 * kBucket);
    readings.push_back(reading_of({.planned = {},
                                   .head = {path, 2 * i * kBucket, kBucket},
                                   .tail = {},
                                   .final = {path, (2 * i + 1) * kBucket, kBucket},
                                   .partners = {}}));
  }
  file.close();
  std::printf("%8s %8s\n", "readers", "GB/s");
  for (const int readers : {1, 2, 4, 6, 8, 12}) {
    double best = 1e9;
    for (int run = 0; run < kRuns; ++run) {
      best = std::min(best, seconds(readings, readers));
    }
    std::printf("%8d %8.1f\n", readers, 2e-9 * kBuckets * static_cast<double>(kBucket) / best);
    std::fflush(stdout);
  }
}

}  // namespace pruned::device::on_device
