#include "memory.h"

#include "errors.h"
#include "room.h"

namespace residency {

bool Memory::takes(std::size_t bytes) {
  Context current = nullptr;
  if (bytes < kLeast || driver().cuCtxGetCurrent(&current) != 0 || current == nullptr) {
    return false;
  }
  const std::lock_guard lock(lock_);
  if (context_ == nullptr) {
    RESIDENCY_CHECK(cuCtxGetDevice(&device_));
    granularity_ = granularity(device_);
    context_ = current;
  }
  return context_ == current;
}

DevicePointer Memory::allocate(std::size_t bytes) {
  std::unique_lock lock(lock_);
  bytes = (bytes + granularity_ - 1) / granularity_ * granularity_;
  auto segment = std::make_unique<Segment>(addresses_.take(bytes), bytes, device_);
  lock.unlock();  // whoever gives memory back meanwhile must not have to wait for this thread
  leave_room(bytes);
  for (bool room = true; !segment->map_all(); room = ask_for_room(bytes - segment->mapped_bytes())) {
    if (!room) {  // denied, and what others gave back meanwhile is not enough
      segment->unmap_all();
      lock.lock();
      addresses_.give_back(segment->start(), bytes);
      return 0;
    }
  }
  lock.lock();
  const DevicePointer start = segment->start();
  segments_.emplace(start, std::move(segment));
  return start;
}

bool Memory::free(DevicePointer start) {
  {
    const std::lock_guard lock(lock_);
    if (!segments_.contains(start)) {
      return false;
    }
  }
  RESIDENCY_CHECK(cuCtxSynchronize());
  const std::lock_guard lock(lock_);
  const auto found = segments_.find(start);
  found->second->unmap_all();
  addresses_.give_back(start, found->second->bytes());
  segments_.erase(found);
  return true;
}

void Memory::open(const char* pool, std::uint32_t slots, std::uint32_t owner) {
  const std::lock_guard lock(lock_);
  if (image_) {
    throw Failure(RESIDENCY_INVALID, "the pool cannot change while memory is out");
  }
  pool_ = std::make_unique<Pool>(pool, slots, owner);
}

residency_figures Memory::figures() {
  const std::lock_guard lock(lock_);
  residency_figures told{.segments = segments_.size(), .bytes = 0, .resident = 0, .passed = passed};
  for (const auto& [start, segment] : segments_) {
    told.bytes += segment->bytes();
    told.resident += segment->away ? 0 : segment->bytes();
  }
  return told;
}

void Memory::enter() const {
  if (context_ != nullptr) {
    RESIDENCY_CHECK(cuCtxSetCurrent(context_));
  }
}

Memory& memory() {
  static Memory& whole = *new Memory;  // never destroyed: the program may free after its destructors have run
  return whole;
}

}  // namespace residency
