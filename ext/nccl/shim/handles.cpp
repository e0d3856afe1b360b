#include "handles.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "communicator.h"
#include "failure.h"

namespace pruned::shim {
namespace {

constexpr std::size_t kMost = 65536;

struct Slot {
  std::atomic<Communicator*> communicator;
  std::atomic<bool> gone;
};

std::array<Slot, kMost> slots;
std::atomic<std::size_t> used = 0;

std::uintptr_t offset(Comm handle) noexcept {
  return reinterpret_cast<std::uintptr_t>(handle) - reinterpret_cast<std::uintptr_t>(slots.data());
}

Slot& slot(Comm handle) noexcept { return slots[offset(handle) / sizeof(Slot)]; }

}  // namespace

bool is_ours(Comm handle) noexcept { return offset(handle) < sizeof slots; }

Communicator& communicator(Comm handle) {
  Communicator* found = slot(handle).communicator.load(std::memory_order_acquire);
  if (found == nullptr || slot(handle).gone.load(std::memory_order_acquire)) {
    throw Failure(kInvalidArgument, "this communicator has been destroyed");
  }
  return *found;
}

Comm add_communicator(std::unique_ptr<Communicator> communicator) {
  const std::size_t place = used.fetch_add(1);
  if (place >= kMost) {
    throw Failure(kInvalidUsage, "a process has no more than " + std::to_string(kMost) + " emulated communicators");
  }
  slots[place].communicator.store(communicator.release(), std::memory_order_release);
  return reinterpret_cast<Comm>(&slots[place]);
}

void remove_communicator(Comm handle) noexcept {
  slot(handle).gone.store(true, std::memory_order_release);
}

}  // namespace pruned::shim
