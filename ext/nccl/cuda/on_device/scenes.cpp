#include "scenes.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "../../tests/harness.h"
#include "../releases.h"
#include "session.h"

namespace pruned::device::on_device {
namespace {

using pruned::testing::TemporaryDirectory;

std::vector<std::byte> floats(std::int64_t count, float value) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * 4);
  std::fill_n(reinterpret_cast<float*>(bytes.data()), count, value);
  return bytes;
}

prism_device_op sum_of(std::int64_t count, const prism_device_part& head, const prism_device_part& final) {
  prism_device_op op{};
  op.kind = static_cast<int>(Kind::kAllReduce);
  op.dtype = static_cast<int>(Dtype::kFloat32);
  op.reduce = static_cast<int>(Reduce::kSum);
  op.root = -1;
  op.count = count;
  op.head = head;
  op.final = final;
  return op;
}

Work work_of(std::int64_t count, std::byte* data) {
  return {.kind = Kind::kAllReduce, .dtype = Dtype::kFloat32, .reduce = Reduce::kSum, .count = count, .input = data,
          .output = data};
}

std::int64_t monotonic() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// A file of zeros for so many words.
std::string zeros(const std::string& path, std::int64_t words) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0 || posix_fallocate(file, 0, words * 8) != 0) {
    fail_on_file("cannot make", path);
  }
  close(file);
  return path;
}

void must(Session& session, Verdict verdict) {
  if (verdict != Verdict::kFine) {
    throw Failure(session.group().text());
  }
}

}  // namespace

bool check_graph() {
  constexpr std::int64_t kCount = 40'000;
  const TemporaryDirectory directory;
  Session session(directory.path(), 4, 1, {1}, static_cast<int>(Mode::kExact), 8 << 20);
  for (int i = 0; i < 4; ++i) {  // a chunk that ends here is head + own input; all others are the final result
    const auto bytes = floats(kCount, static_cast<float>(10 * (i + 1)));
    const prism_device_part part = session.part(&bytes);
    session.plan(sum_of(kCount, part, part));
  }
  session.start();
  const DeviceMemory data = device_memory(2 * kCount * 4);
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t launched;
  PRUNED_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  PRUNED_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < 2; ++i) {
    PRUNED_CUDA(cudaMemsetAsync(data.get() + i * kCount * 4, 0, kCount * 4, stream));
    must(session, session.group().launch(work_of(kCount, data.get() + i * kCount * 4), stream));
  }
  PRUNED_CUDA(cudaStreamEndCapture(stream, &graph));
  PRUNED_CUDA(cudaGraphInstantiate(&launched, graph, 0));
  bool equal = true;
  for (int turn = 0; turn < 2; ++turn) {
    PRUNED_CUDA(cudaGraphLaunch(launched, stream));
    session.finish();
    std::vector<float> got(2 * kCount);
    PRUNED_CUDA(cudaMemcpy(got.data(), data.get(), got.size() * 4, cudaMemcpyDefault));
    for (int i = 0; i < 2; ++i) {
      const float expected = static_cast<float>(10 * (2 * turn + i + 1));
      equal = equal && std::all_of(got.begin() + i * kCount, got.begin() + (i + 1) * kCount,
                                   [&](float value) { return value == expected; });
    }
  }
  std::printf("graph: %s\n", equal ? "equal" : "DIFFERS");
  return equal;
}

bool check_detour() {
  constexpr std::int64_t kCount = 8 << 20;
  constexpr int kOps = 4;
  const TemporaryDirectory directory;
  Session session(directory.path(), 4, 1, {1}, static_cast<int>(Mode::kExact), 1);  // the pool has room for one
  for (int i = 0; i < kOps; ++i) {
    const auto bytes = floats(kCount, static_cast<float>(10 * (i + 1)));
    const prism_device_part part = session.part(&bytes);
    session.plan(sum_of(kCount, part, part));
  }
  session.start();
  const DeviceMemory data = device_memory(kOps * kCount * 4);
  DeviceMemory freed = device_memory(4096);
  cudaStream_t stream;
  PRUNED_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int i = 0; i < kOps; ++i) {
    must(session, session.group().launch(work_of(kCount, data.get() + i * kCount * 4), stream));
  }
  freed.reset();  // until all of them have ended
  session.finish();
  std::vector<float> got(kOps * kCount);
  PRUNED_CUDA(cudaMemcpy(got.data(), data.get(), got.size() * 4, cudaMemcpyDefault));
  bool equal = true;
  for (std::int64_t i = 0; i < kOps * kCount; ++i) {
    equal = equal && got[i] == static_cast<float>(10 * (i / kCount + 1));
  }
  std::printf("detour: %s\n", equal ? "equal" : "DIFFERS");
  return equal;
}

bool check_paced() {
  constexpr int kSize = 64, kOps = 6;
  constexpr std::int64_t kCount = 64'000, kLatency = 2'000'000, kTransfer = 3'000'000;
  const TemporaryDirectory directory;
  const std::string folder = directory.path();
  const std::string board = zeros(folder + "/board", 5 + 4 * kOps + 3);
  const std::string shown = zeros(folder + "/releases", kHeaderWords + 8 * entry_words(kSize));
  SharedWords releases(shown);
  releases.words()[0] = kReleasesMagic;
  releases.words()[1] = 8;
  releases.words()[2] = kSize;
  Session session(folder, kSize, 3, {3}, static_cast<int>(Mode::kLeft), 8 << 20, 0, board, shown, kOps);
  for (int i = 0; i < kOps; ++i) {
    prism_device_op op = sum_of(kCount, {}, {});
    op.op = i;
    op.latency = kLatency;
    op.transfer = kTransfer;
    session.plan(op);
  }
  session.start();
  SharedWords cells(board);
  const DeviceMemory data = device_memory(kCount * 4);
  bool fine = true;
  for (int i = 0; i < kOps; ++i) {
    const std::int64_t post = monotonic() + 3'000'000;
    std::int64_t* entry = releases.words() + kHeaderWords + i * entry_words(kSize);
    entry[1] = kSize - 1;
    for (int k = 0; k < kSize - 1; ++k) {
      entry[2 + k] = post;
    }
    __atomic_store_n(entry, i + 1, __ATOMIC_RELEASE);
    const std::int64_t launched = monotonic();
    must(session, session.group().launch(work_of(kCount, data.get()), nullptr));
    session.finish();
    const std::int64_t late = monotonic() - (post + kLatency + kTransfer);
    const std::int64_t posted = cells.words()[2 + i] - launched;
    const std::int64_t* moved = cells.words() + 2 + kOps + 3 * i;
    std::printf("paced: ends %.1f us after its time, its post is %.1f us after the call; moved %ld steps, %ld bytes\n",
                static_cast<double>(late) / 1e3, static_cast<double>(posted) / 1e3, static_cast<long>(moved[0]),
                static_cast<long>(moved[1]));
    fine = fine && late > -20'000 && late < 1'000'000 && moved[0] == 2 * (kSize - 1);
  }
  return fine;
}

bool check_messages() {
  constexpr std::int64_t kCount = 3'000'001;
  const TemporaryDirectory directory;
  Session session(directory.path(), 4, 1, {1}, static_cast<int>(Mode::kExact), 64 << 20);
  const auto first = floats(kCount, 3), second = floats(5, 7);
  const prism_device_partner partners[] = {{2, 1, kCount * 4, {}},
                                           {0, 0, kCount * 4, session.part(&first)},
                                           {3, 0, 20, session.part(&second)}};
  prism_device_op op{};
  op.kind = 9;
  op.root = -1;
  op.partners_size = 3;
  op.partners = partners;
  session.plan(op);
  session.start();
  const DeviceMemory data = device_memory(3 * kCount * 4);
  std::byte* at = data.get();
  const std::vector<Message> messages{{.peer = 3, .sends = false, .data = at + 2 * kCount * 4, .bytes = 20},
                                      {.peer = 2, .sends = true, .data = at, .bytes = kCount * 4},
                                      {.peer = 0, .sends = false, .data = at + kCount * 4, .bytes = kCount * 4}};
  must(session, session.group().launch(messages, nullptr));
  session.finish();
  std::vector<std::byte> got(first.size()), few(second.size());
  PRUNED_CUDA(cudaMemcpy(got.data(), at + kCount * 4, got.size(), cudaMemcpyDefault));
  PRUNED_CUDA(cudaMemcpy(few.data(), at + 2 * kCount * 4, few.size(), cudaMemcpyDefault));
  const bool equal = got == first && few == second;
  std::printf("messages: %s\n", equal ? "equal" : "DIFFER");
  return equal;
}

}  // namespace pruned::device::on_device
