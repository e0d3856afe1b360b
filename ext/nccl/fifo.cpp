#include "fifo.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "clock.h"
#include "errors.h"

namespace pruned {

// The two counts are on cache lines of their own, as each is written by one side and read by the other.
struct FifoHeader {
  struct Stamp {
    std::uint32_t bytes;
    std::uint32_t tag;
    std::int64_t at;
  };

  alignas(64) std::atomic<std::uint32_t> published;
  std::atomic<pid_t> sender;
  alignas(64) std::atomic<std::uint32_t> released;
  std::atomic<pid_t> receiver;
  alignas(64) std::array<Stamp, kSlots> stamps;
};

namespace {

constexpr std::size_t kDataOffset = 4096;
constexpr std::size_t kFileBytes = kDataOffset + kSlots * kSlotBytes;
// What takes less time than waking somebody for it.
constexpr std::size_t kSmallSlice = 16 * 1024;
static_assert(sizeof(FifoHeader) <= kDataOffset);

std::byte* slot_data(const Mapping& mapping, std::uint32_t index) {
  return mapping.data() + kDataOffset + (index % kSlots) * kSlotBytes;
}

/// 0 is a process that has not come yet.
bool gone(pid_t process) { return process != 0 && kill(process, 0) != 0 && errno == ESRCH; }

[[noreturn]] void lost(const std::string& name, pid_t process) {
  throw PeerLost("process " + std::to_string(process) + ", at the other end of " + name + ", has ended");
}

}  // namespace

Outlet::Outlet(Directory& directory, std::string name, std::shared_ptr<Bell> receiver)
    : name_(std::move(name)), mapping_(directory.open(name_, kFileBytes)), receiver_(std::move(receiver)) {
  header().sender.store(getpid(), std::memory_order_relaxed);
  published_ = header().published.load(std::memory_order_relaxed);
}

FifoHeader& Outlet::header() const { return *reinterpret_cast<FifoHeader*>(mapping_->data()); }

bool Outlet::ready() const { return published_ - header().released.load(std::memory_order_acquire) < kSlots; }

bool Outlet::empty() const { return published_ == header().released.load(std::memory_order_acquire); }

std::span<std::byte> Outlet::slot() const { return {slot_data(*mapping_, published_), kSlotBytes}; }

void Outlet::publish(std::size_t bytes, std::uint32_t tag) { publish(bytes, tag, now()); }

void Outlet::publish(std::size_t bytes, std::uint32_t tag, std::int64_t stamp) {
  header().stamps[published_ % kSlots] = {.bytes = static_cast<std::uint32_t>(bytes), .tag = tag, .at = stamp};
  header().published.store(++published_, std::memory_order_release);
  receiver_->ring(bytes > kSmallSlice);
}

void Outlet::verify() const {
  const pid_t receiver = header().receiver.load(std::memory_order_relaxed);
  if (gone(receiver) && !ready()) {
    lost(name_, receiver);
  }
}

Inlet::Inlet(Directory& directory, std::string name, std::shared_ptr<Bell> sender)
    : name_(std::move(name)), mapping_(directory.open(name_, kFileBytes)), sender_(std::move(sender)) {
  header().receiver.store(getpid(), std::memory_order_relaxed);
  released_ = header().released.load(std::memory_order_relaxed);
}

FifoHeader& Inlet::header() const { return *reinterpret_cast<FifoHeader*>(mapping_->data()); }

bool Inlet::ready() const { return released_ != header().published.load(std::memory_order_acquire); }

Slice Inlet::front() const {
  const FifoHeader::Stamp& stamp = header().stamps[released_ % kSlots];
  return {.data = {slot_data(*mapping_, released_), stamp.bytes}, .tag = stamp.tag, .stamp = stamp.at};
}

Slice Inlet::front(std::size_t bytes, std::uint32_t tag) const {
  const Slice slice = front();
  if (slice.data.size() != bytes || slice.tag != tag) {
    throw Mismatch(name_ + " brought " + std::to_string(slice.data.size()) + " bytes of step " +
                   std::to_string(slice.tag) + " where " + std::to_string(bytes) + " bytes of step " +
                   std::to_string(tag) + " were due: its two ends do not run the same operation");
  }
  return slice;
}

void Inlet::release() {
  const bool hurry = header().stamps[released_ % kSlots].bytes > kSmallSlice;
  header().released.store(++released_, std::memory_order_release);
  sender_->ring(hurry);
}

void Inlet::verify() const {
  const pid_t sender = header().sender.load(std::memory_order_relaxed);
  if (gone(sender) && !ready()) {
    lost(name_, sender);
  }
}

}  // namespace pruned
