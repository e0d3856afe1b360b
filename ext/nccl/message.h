// Point-to-point messages: bytes through a FIFO of their own, if wanted over a given time.

#pragma once

#include "exchange.h"

namespace pruned {

/// Each slice of a message tells the size of the whole.
constexpr std::uint32_t mark(std::size_t bytes) { return static_cast<std::uint32_t>(bytes); }

class MessageSend final : public Activity {
 public:
  /// Nothing goes before `start`, and the last byte `duration` ns later; `data` null sends zeros.
  MessageSend(const std::byte* data, std::size_t bytes, std::int64_t start, std::int64_t duration, Outlet& outlet)
      : sending_(data, bytes, mark(bytes)), start_(start), duration_(duration), outlet_(outlet) {}

  bool advance() override;
  bool done() const override { return sending_.done(); }
  std::int64_t due() const override { return due_; }
  void verify() const override { outlet_.verify(); }

 private:
  Sending sending_;
  std::int64_t start_;
  std::int64_t duration_;
  Outlet& outlet_;
  std::int64_t due_ = kNever;
};

class MessageReceive final : public Activity {
 public:
  /// `data` null drops what comes.
  MessageReceive(std::byte* data, std::size_t bytes, Inlet& inlet)
      : receiving_(data, bytes, mark(bytes)), inlet_(inlet) {}

  bool advance() override;
  bool done() const override { return receiving_.done(); }
  void verify() const override { inlet_.verify(); }

 private:
  Receiving receiving_;
  Inlet& inlet_;
};

}  // namespace pruned
