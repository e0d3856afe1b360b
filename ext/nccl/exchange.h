// Blocks on their way through FIFOs, in order: the two halves of every exchange in pairs, and of messages.

#pragma once

#include <algorithm>
#include <functional>
#include <span>

#include "activity.h"
#include "fifo.h"

namespace pruned {

/// Bytes that go to one FIFO, from memory or, where there is none, as zeros.
class Sending {
 public:
  Sending(const std::byte* data, std::size_t bytes, std::uint32_t mark) : data_(data), bytes_(bytes), mark_(mark) {}

  /// Publishes the next slice, as of now or of this time; the FIFO must be ready.
  void advance(Outlet& outlet) { advance(outlet, now()); }
  void advance(Outlet& outlet, std::int64_t stamp);
  bool done() const { return done_; }
  /// The share of the block that will have gone with the next slice.
  double next_share() const;

 private:
  std::size_t next() const { return std::min(kSlotBytes, bytes_ - sent_); }

  const std::byte* data_;
  std::size_t bytes_;
  std::uint32_t mark_;
  std::size_t sent_ = 0;
  bool done_ = false;
};

/// Bytes that come from one FIFO, into memory or, where there is none, nowhere.
class Receiving {
 public:
  Receiving(std::byte* data, std::size_t bytes, std::uint32_t mark) : data_(data), bytes_(bytes), mark_(mark) {}

  /// Takes in the next slice; the FIFO must be ready.
  void advance(Inlet& inlet);
  bool done() const { return done_; }

 private:
  std::byte* data_;
  std::size_t bytes_;
  std::uint32_t mark_;
  std::size_t received_ = 0;
  bool done_ = false;
};

}  // namespace pruned
