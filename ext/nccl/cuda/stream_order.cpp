#include "stream_order.h"

#include "check.h"

namespace pruned::device {
namespace {

/// The capture that a stream is in; 0: in none.
unsigned long long capture_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long capture = 0;
  PRUNED_CUDA(cudaStreamGetCaptureInfo(stream, &status, &capture));
  return status == cudaStreamCaptureStatusNone ? 0 : capture;
}

}  // namespace

Event order_event() {
  cudaEvent_t event = nullptr;
  PRUNED_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return Event(event);
}

/// A graph is ordered with what is outside of it by who launches it: CUDA joins no stream with another one's capture.
void StreamOrder::begin(cudaStream_t stream) {
  if (ended_ != nullptr && capture_of(stream) == capture_) {
    PRUNED_CUDA(cudaStreamWaitEvent(stream, ended_.get(), 0));
  }
}

void StreamOrder::end(cudaStream_t stream) {
  if (ended_ == nullptr) {
    ended_ = order_event();
  }
  capture_ = capture_of(stream);
  PRUNED_CUDA(cudaEventRecord(ended_.get(), stream));
}

}  // namespace pruned::device
