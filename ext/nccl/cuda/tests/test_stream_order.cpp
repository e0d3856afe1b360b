// Operations of a group come one after the other, on whatever streams they are.

#include <chrono>
#include <mutex>
#include <string>
#include <thread>

#include "../../tests/check.h"
#include "../check.h"
#include "../stream_order.h"
#include "fake_cuda/fake_cuda.h"
#include "tests.h"

namespace pruned::device::testing {
namespace {

Stream stream() {
  cudaStream_t made = nullptr;
  PRUNED_CUDA(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  return Stream(made);
}

/// In which order three operations end, of which the first takes long; the streams of two of them may be in captures.
std::string ends(unsigned long long first_capture, unsigned long long others_capture) {
  const Stream first = stream(), second = stream();
  fake_cuda::set_capture(first.get(), first_capture);
  fake_cuda::set_capture(second.get(), others_capture);
  StreamOrder order;
  std::string ended;
  std::mutex mutex;
  const auto operation = [&](const Stream& on, char name, int ms) {
    order.begin(on.get());
    fake_cuda::launch(on.get(), [&, name, ms] {
      std::this_thread::sleep_for(std::chrono::milliseconds(ms));
      const std::lock_guard lock(mutex);
      ended += name;
    });
    order.end(on.get());
  };
  operation(first, 'a', 50);
  operation(second, 'b', 0);
  operation(second, 'c', 0);
  PRUNED_CUDA(cudaStreamSynchronize(first.get()));
  PRUNED_CUDA(cudaStreamSynchronize(second.get()));
  return ended;
}

}  // namespace

void test_stream_order() {
  CHECK(ends(0, 0) == "abc", "in the order of the calls");
  CHECK(ends(7, 7) == "abc", "in one capture too");
  CHECK(ends(7, 0) == "bca", "a stream outside of a capture waits for nothing in it");
}

}  // namespace pruned::device::testing
