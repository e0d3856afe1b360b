// A FIFO between two parties: 8 slots of at most 512 KiB in a file that both map, one that sends and one that receives.
//
// The sender writes into a free slot and publishes it; the receiver reads it where it lies and releases it. Each rings
// the other's bell. Counts only grow, and wrap around with their type.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "bell.h"
#include "directory.h"
#include "element.h"

namespace pruned {

constexpr int kSlots = 8;
constexpr std::size_t kSlotBytes = 512 * 1024;

/// What a slice is marked with: the operation, and which of the sender's sends it is a part of.
constexpr std::uint32_t tag(Kind kind, std::int64_t send) {
  return (static_cast<std::uint32_t>(kind) << 28) | (static_cast<std::uint32_t>(send) & 0x0FFF'FFFFU);
}

/// What one slot holds.
struct Slice {
  std::span<const std::byte> data;
  std::uint32_t tag = 0;   // what the sender takes it for, so that a receiver that is out of step finds out
  std::int64_t stamp = 0;  // when it was published
};

/// The file's layout.
struct FifoHeader;

class Outlet {
 public:
  Outlet(Directory& directory, std::string name, std::shared_ptr<Bell> receiver);

  bool ready() const;
  std::span<std::byte> slot() const;
  void publish(std::size_t bytes, std::uint32_t tag);
  /// The same, of a slice that was published elsewhere at this time.
  void publish(std::size_t bytes, std::uint32_t tag, std::int64_t stamp);
  /// Whether the receiver has released all that was published.
  bool empty() const;
  /// Throws PeerLost if nobody is left who could free a slot.
  void verify() const;

 private:
  FifoHeader& header() const;

  std::string name_;
  std::shared_ptr<Mapping> mapping_;
  std::shared_ptr<Bell> receiver_;
  std::uint32_t published_;
};

class Inlet {
 public:
  Inlet(Directory& directory, std::string name, std::shared_ptr<Bell> sender);

  bool ready() const;
  /// The oldest slice.
  Slice front() const;
  /// The same; throws Mismatch if it is not of this size, or not what is expected.
  Slice front(std::size_t bytes, std::uint32_t tag) const;
  void release();
  /// Throws PeerLost if nobody is left who could send.
  void verify() const;

 private:
  FifoHeader& header() const;

  std::string name_;
  std::shared_ptr<Mapping> mapping_;
  std::shared_ptr<Bell> sender_;
  std::uint32_t released_;
};

}  // namespace pruned
