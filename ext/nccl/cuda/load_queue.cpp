#include "load_queue.h"

#include <algorithm>

namespace pruned::device {

void LoadQueue::add(Load& load) {
  std::int64_t bytes = 0;
  for (const Reading::Placed& placed : load.reading->parts) {
    bytes += placed.part.nbytes;
  }
  load.left = bytes;
  {
    const std::lock_guard lock(mutex_);
    loads_.push_back(&load);
  }
  bytes > piece_bytes_ ? changed_.notify_all() : changed_.notify_one();
}

bool LoadQueue::hurry(const Load& load) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(loads_, &load);
  if (found == loads_.end()) {
    return false;
  }
  std::rotate(loads_.begin(), found, found + 1);
  return load.part == 0 && load.done == 0;
}

std::optional<FilePiece> LoadQueue::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || !loads_.empty(); });
  if (closed_) {
    return std::nullopt;
  }
  Load& load = *loads_.front();
  const Reading::Placed& placed = load.reading->parts[load.part];
  const std::int64_t bytes = std::min(piece_bytes_, placed.part.nbytes - load.done);
  const FilePiece piece{&load, &placed.part, load.done, bytes, load.region + placed.at + load.done};
  load.done += bytes;
  if (load.done == placed.part.nbytes) {
    load.done = 0;
    ++load.part;
  }
  if (load.part == load.reading->parts.size()) {
    loads_.pop_front();
  }
  return piece;
}

void LoadQueue::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

}  // namespace pruned::device
