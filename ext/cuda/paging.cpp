// Out and in: how the memory of a process leaves the device and comes back.
//
// Out: the device has come to rest. Chunks are copied one after the other, and each gives its physical memory back as
// soon as it is copied, while the next ones are under way: another process that comes in meanwhile gets it. In: chunks
// get physical memory and are copied; where there is none, memory that others are giving back is waited for.
//
// Large handles come first. While another process copies out each handle takes as long to open, however large it is,
// and that is longer than a small one takes to be copied: small ones first, and copies would starve. Once nobody copies
// out beside, opening costs little. The host copy lies in that order, so that a file of it is read from end to end.

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "errors.h"
#include "memory.h"
#include "room.h"
#include "tally.h"

namespace residency {
namespace {

using Clock = std::chrono::steady_clock;

/// Between two attempts to get memory that another process is giving back: 128 MiB take 2.6 ms on their way out.
constexpr std::chrono::microseconds kPause{100};

residency_moved moved_since(Clock::time_point start, std::size_t bytes, CopyTimes times = {}) {
  std::size_t free = 0, total = 0;
  int device = 0;
  RESIDENCY_CHECK(cuMemGetInfo(&free, &total));
  RESIDENCY_CHECK(cuCtxGetDevice(&device));
  const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start);
  return {.bytes = bytes,
          .ns = static_cast<std::uint64_t>(took.count()),
          .free = free,
          .device = static_cast<std::uint64_t>(device),
          .copying = times.copying,
          .starved = times.starved};
}

/// Attempt until it succeeds, for so long with patience; then room is asked for.
template <class Attempt>
void once_there_is_room(Attempt attempt, std::chrono::milliseconds patience, std::size_t needed) {
  const auto deadline = Clock::now() + patience;
  bool room = true;
  while (!attempt()) {
    if (const auto now = Clock::now(); now < deadline) {
      std::this_thread::sleep_for(kPause);
      tally(RESIDENCY_CALL_PAUSE, Clock::now() - now);
    } else if (room) {
      room = ask_for_room(needed);
    } else {  // denied, and what others gave back meanwhile is not enough
      throw Failure(RESIDENCY_DEVICE_FULL, "the device has no room for " + std::to_string(needed) +
                                               " bytes more of the rank that comes back, and nobody makes any");
    }
  }
}

}  // namespace

residency_moved Memory::out() {
  const auto start = Clock::now();
  const std::lock_guard lock(lock_);
  if (image_ || !pool_) {
    throw Failure(RESIDENCY_INVALID, image_ ? "the memory is out already" : "out before residency_open");
  }
  if (context_ == nullptr) {
    return {};
  }
  enter();
  RESIDENCY_CHECK_TALLIED(SETTLE, cuCtxSynchronize());
  const std::size_t total = lay_out();
  image_ = std::make_unique<Image>(*pool_, total);
  return moved_since(start, total, copy_out());
}

std::size_t Memory::lay_out() {
  std::vector<Segment*> order;
  for (const auto& [address, segment] : segments_) {
    order.push_back(segment.get());
  }
  const auto handle = [](const Segment* segment) { return segment->bytes() / segment->chunks(); };
  std::ranges::stable_sort(order, std::greater{}, handle);
  std::size_t total = 0;
  for (Segment* segment : order) {
    segment->image_offset = total;
    total += segment->bytes();
  }
  return total;
}

CopyTimes Memory::copy_out() {
  Copies copies(*image_, device_, events_);
  for (const auto& [address, segment] : segments_) {
    segment->away = true;
    for (std::size_t chunk = 0; chunk < segment->chunks(); ++chunk) {
      copies.out(*segment, chunk);
      copies.unmap_finished(false);
    }
  }
  copies.unmap_finished(true);
  return copies.times();
}

residency_moved Memory::in(std::uint32_t patience_ms) {
  const auto start = Clock::now();
  const std::lock_guard lock(lock_);
  if (context_ == nullptr) {
    return {};
  }
  if (!image_) {
    throw Failure(RESIDENCY_INVALID, "in without out before");
  }
  enter();
  std::vector<Segment*> away;
  std::size_t total = 0;
  for (const auto& [address, segment] : segments_) {
    if (segment->away) {
      away.push_back(segment.get());
      total += segment->bytes();
    }
  }
  std::ranges::sort(away, {}, &Segment::image_offset);
  CopyTimes times;
  try {
    times = copy_in(away, total, std::chrono::milliseconds(patience_ms));
  } catch (...) {  // the host copy is whole: all of it may come later
    std::ranges::for_each(away, &Segment::unmap_all);
    throw;
  }
  for (Segment* segment : away) {
    segment->away = false;
  }
  image_.reset();
  return moved_since(start, total, times);
}

CopyTimes Memory::copy_in(const std::vector<Segment*>& away, std::size_t needed, std::chrono::milliseconds patience) {
  Copies copies(*image_, device_, events_);
  const auto open = [&] { return copies.open(); };
  for (Segment* segment : away) {
    for (std::size_t chunk = 0; chunk < segment->chunks(); ++chunk) {
      if (!copies.takes(*segment, chunk)) {
        once_there_is_room(open, patience, needed);
      }
      const auto map = [&] { return segment->map(chunk) || (open() && segment->map(chunk)); };
      once_there_is_room(map, patience, needed);
      copies.in(*segment, chunk);
      needed -= segment->chunk_bytes(chunk);
    }
  }
  once_there_is_room(open, patience, needed);
  copies.wait();
  return copies.times();
}

residency_moved Memory::spill(const char* path) {
  const auto start = Clock::now();
  const std::lock_guard lock(lock_);
  if (context_ == nullptr) {
    return {};
  }
  if (!image_) {
    throw Failure(RESIDENCY_INVALID, "a spill without out before");
  }
  enter();
  image_->spill(path);
  return moved_since(start, image_->bytes());
}

}  // namespace residency
