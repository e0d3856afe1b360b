// One of the threads that read payloads: from files into pinned memory, and on to the device by its copy engine.
//
// It has two buffers: while one is copied, the other is read into. All readers share one stream.

#pragma once

#include <functional>

#include "driver_calls.h"
#include "events.h"
#include "load_queue.h"
#include "memory.h"

namespace pruned::device {

constexpr std::int64_t kPieceBytes = 2 * 1024 * 1024;

/// How many threads read, on a machine of so many cores, as the affinity of the process has it.
int readers_for(int cores);

class PayloadReader {
 public:
  /// Takes its memory. `loaded` is called once all pieces of a load are on the stream, by whoever had the last one.
  PayloadReader(LoadQueue& queue, cudaStream_t stream, DriverCalls& calls, std::function<void(const Load&)> loaded);

  /// Reads until the queue is closed. Throws Failure.
  void run();

 private:
  struct Buffer {
    PinnedMemory data;
    Event copied;
  };

  void pass_on(const FilePiece& piece);
  /// Until what was in it is copied.
  void await(const Buffer& buffer);

  LoadQueue& queue_;
  cudaStream_t stream_;
  DriverCalls& calls_;
  std::function<void(const Load&)> loaded_;
  Buffer buffers_[2];
  int turn_ = 0;
};

}  // namespace pruned::device
