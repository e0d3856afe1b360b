#include "barrier.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace pruned {
namespace {

constexpr std::uint32_t kRelease = tag(Kind::kBarrier, 0x0FFF'FFFF);
constexpr std::int64_t kLongAgo = std::numeric_limits<std::int64_t>::min();

int parties(const Ports& ports) { return static_cast<int>(ports.sandbox().size()) + ports.arcs(); }

/// Members of an arc that nobody paces have come long ago.
std::int64_t latest_of(const std::optional<Times>& times, int members) {
  if (!times.has_value()) {
    return kLongAgo;
  }
  check_posts(*times, members);
  return *std::ranges::max_element(times->posts);
}

}  // namespace

bool LatestPost::advance() {
  bool moved = false;
  if (sent_ < rounds_ && sent_ <= received_ && right_.ready()) {
    std::memcpy(right_.slot().data(), &latest_, sizeof latest_);
    right_.publish(sizeof latest_, tag(Kind::kBarrier, sent_++));
    moved = true;
  }
  if (received_ < rounds_ && left_.ready()) {
    std::int64_t other = 0;
    std::memcpy(&other, left_.front(sizeof other, tag(Kind::kBarrier, received_++)).data.data(), sizeof other);
    left_.release();
    latest_ = std::max(latest_, other);
    moved = true;
  }
  return moved;
}

void LatestPost::verify() const {
  if (received_ < rounds_) {
    left_.verify();
  }
  if (sent_ < rounds_) {
    right_.verify();
  }
}

BarrierMember::BarrierMember(Ports& ports)
    : left_(ports.from(ports.left_of(ports.self().rank))),
      right_(ports.to(ports.right_of(ports.self().rank))),
      posts_(now(), parties(ports), left_, right_),
      received_(ports.arcs() == 0),
      forwarded_(ports.arcs() == 0 || ports.right_of(ports.self().rank).role == Party::Role::kArc) {
  // What a dissemination barrier of N ranks does.
  moved_.sends = moved_.receives = std::bit_width(static_cast<unsigned>(ports.size() - 1));
}

bool BarrierMember::advance() {
  if (!posts_.done()) {
    return posts_.advance();
  }
  if (!received_ && left_.ready()) {
    left_.front(0, kRelease);
    left_.release();
    received_ = true;
    return true;
  }
  if (received_ && !forwarded_ && right_.ready()) {
    right_.publish(0, kRelease);
    forwarded_ = true;
    return true;
  }
  return false;
}

void BarrierMember::verify() const {
  posts_.verify();
  if (!received_) {
    left_.verify();
  } else if (!forwarded_) {
    right_.verify();
  }
}

BarrierArc::BarrierArc(const Arc& arc, const std::optional<Times>& times, Ports& ports)
    : from_a_(ports.from({Party::Role::kMember, arc.after})),
      to_b_(ports.to({Party::Role::kMember, arc.before()})),
      posts_(latest_of(times, arc.members), parties(ports), from_a_, to_b_),
      cost_(times.has_value() ? times->latency + times->transfer : 0) {}

bool BarrierArc::advance() {
  if (!posts_.done()) {
    return posts_.advance();
  }
  if (released_ || !to_b_.ready()) {
    return false;
  }
  const std::int64_t time = posts_.latest() + cost_;
  due_ = let_go(time);
  if (now() < due_) {
    return false;
  }
  to_b_.publish(0, kRelease, time);
  released_ = true;
  return true;
}

void BarrierArc::verify() const {
  posts_.verify();
  to_b_.verify();
}

}  // namespace pruned
