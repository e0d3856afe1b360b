// Out and in: how the memory of a process leaves the device and comes back.
//
// Out: the device has come to rest. Chunks are copied one after the other, and each gives its physical memory back as
// soon as it is copied, while the next ones are under way: another process that comes in meanwhile gets it. In: chunks
// get physical memory and are copied; where there is none, memory that others are giving back is waited for.

#include <chrono>
#include <thread>

#include "copies.h"
#include "errors.h"
#include "memory.h"
#include "room.h"
#include "tally.h"

namespace residency {
namespace {

using Clock = std::chrono::steady_clock;

/// Between two attempts to get memory that another process is giving back: a chunk takes 600 us on its way out.
constexpr std::chrono::microseconds kPause{100};

residency_moved moved_since(Clock::time_point start, std::size_t bytes) {
  std::size_t free = 0, total = 0;
  RESIDENCY_CHECK(cuMemGetInfo(&free, &total));
  const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start);
  return {.bytes = bytes, .ns = static_cast<std::uint64_t>(took.count()), .free = free};
}

/// Attempt until it succeeds, with patience until the deadline; then room is asked for.
template <class Attempt>
void once_there_is_room(Attempt attempt, Clock::time_point deadline, std::size_t needed) {
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
  std::size_t total = 0;
  for (const auto& [address, segment] : segments_) {
    segment->image_offset = total;
    total += segment->bytes();
  }
  image_ = std::make_unique<Image>(*pool_, total);
  copy_out();
  return moved_since(start, total);
}

void Memory::copy_out() {
  Copies copies(*image_, device_);
  for (const auto& [address, segment] : segments_) {
    segment->away = true;
    for (std::size_t chunk = 0; chunk < segment->chunks(); ++chunk) {
      copies.out(*segment, chunk);
      copies.unmap_finished(false);
    }
  }
  copies.unmap_finished(true);
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
  const std::size_t total = copy_in(start + std::chrono::milliseconds(patience_ms));
  image_.reset();
  return moved_since(start, total);
}

std::size_t Memory::copy_in(Clock::time_point deadline) {
  std::size_t total = 0;
  for (const auto& [address, segment] : segments_) {
    total += segment->away ? segment->bytes() : 0;
  }
  try {
    Copies copies(*image_, device_);
    std::size_t needed = total;
    const auto open = [&] { return copies.open(); };
    for (const auto& [address, segment] : segments_) {
      for (std::size_t chunk = 0; segment->away && chunk < segment->chunks(); ++chunk) {
        if (!copies.takes(*segment, chunk)) {
          once_there_is_room(open, deadline, needed);
        }
        const auto map = [&] { return segment->map(chunk) || (open() && segment->map(chunk)); };
        once_there_is_room(map, deadline, needed);
        copies.in(*segment, chunk);
        needed -= segment->chunk_bytes(chunk);
      }
    }
    once_there_is_room(open, deadline, needed);
    copies.wait();
  } catch (...) {  // the host copy is whole: all of it may come later
    for (const auto& [address, segment] : segments_) {
      if (segment->away) {
        segment->unmap_all();
      }
    }
    throw;
  }
  for (const auto& [address, segment] : segments_) {
    segment->away = false;
  }
  return total;
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
