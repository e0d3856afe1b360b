#include "payload_reader.h"

#include <algorithm>

#include "check.h"
#include "payload_file.h"

namespace pruned::device {
/// One brings 4.7 GB/s out of the page cache, 8 bring 31, 12 bring 37 (H200, 16 cores, 2026-11-30); half of the cores are
/// left to the program.
int readers_for(int cores) { return std::clamp(cores / 2, 1, 8); }

PayloadReader::PayloadReader(LoadQueue& queue, cudaStream_t stream, DriverCalls& calls,
                             std::function<void(const Load&)> loaded)
    : queue_(queue), stream_(stream), calls_(calls), loaded_(std::move(loaded)) {
  for (Buffer& buffer : buffers_) {
    buffer.data = pinned_memory(kPieceBytes);
    cudaEvent_t event = nullptr;
    // Readers sleep while the link is what they wait for: a spinning one would take a core from the program.
    PRUNED_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync));
    buffer.copied.reset(event);
  }
}

void PayloadReader::run() {
  while (const std::optional<FilePiece> piece = queue_.take()) {
    pass_on(*piece);
    if (piece->load->left.fetch_sub(piece->bytes) == piece->bytes) {
      loaded_(*piece->load);
    }
  }
}

void PayloadReader::pass_on(const FilePiece& piece) {
  const Buffer& buffer = buffers_[turn_];
  turn_ = 1 - turn_;
  await(buffer);
  PayloadFile(piece.part->path).read(buffer.data.get(), piece.bytes, piece.part->offset + piece.first);
  const DriverCalls::Call call(calls_);
  const auto bytes = static_cast<std::size_t>(piece.bytes);
  PRUNED_CUDA(cudaMemcpyAsync(piece.to, buffer.data.get(), bytes, cudaMemcpyDefault, stream_));
  PRUNED_CUDA(cudaEventRecord(buffer.copied.get(), stream_));
}

void PayloadReader::await(const Buffer& buffer) {
  const DriverCalls::Call call(calls_);
  PRUNED_CUDA(cudaEventSynchronize(buffer.copied.get()));
}

}  // namespace pruned::device
