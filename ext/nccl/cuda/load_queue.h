// What is to be read, for the threads that read: piece by piece, in the order of operations.
//
// A payload that somebody waits for goes before all others. Pieces of one payload may be with several readers.

#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "reading.h"

namespace pruned::device {

/// The payloads of one entry on their way to a region of device memory.
struct Load {
  const Reading* reading = nullptr;
  std::int64_t entry = 0;
  std::byte* region = nullptr;        // null: it has no room yet
  std::atomic<std::int64_t> left = 0;  // bytes that no reader has passed on yet

  // The queue's: up to where it was handed out.
  std::size_t part = 0;
  std::int64_t done = 0;
};

/// What a reader reads at once, from one file.
struct FilePiece {
  Load* load;
  const Part* part;
  std::int64_t first;  // in the part
  std::int64_t bytes;
  std::byte* to;
};

class LoadQueue {
 public:
  explicit LoadQueue(std::int64_t piece_bytes) : piece_bytes_(piece_bytes) {}

  void add(Load& load);
  /// Puts a load before all others; whether nobody had begun to read it.
  bool hurry(const Load& load);
  /// The next piece, as soon as there is one; nothing once the queue is closed.
  std::optional<FilePiece> take();
  void close();

 private:
  std::int64_t piece_bytes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Load*> loads_;
  bool closed_ = false;
};

}  // namespace pruned::device
