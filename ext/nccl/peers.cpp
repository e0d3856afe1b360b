#include "peers.h"

#include <utility>

namespace pruned {

Peers::Peers(const Op& op, const std::byte* data, std::optional<Times> times, Ports& ports)
    : kind_(op.kind),
      size_(op.size),
      rank_(ports.self().rank),
      item_(op.item()),
      data_(data),
      ports_(ports),
      from_(ports.from({Party::Role::kMember, rank_})),
      to_(ports.to({Party::Role::kMember, rank_})),
      to_member_(incoming(op, rank_)),
      from_member_(outgoing(op, rank_)) {
  if (times.has_value()) {
    pace_.emplace(op, rank_, to_member_, *std::move(times));
  }
  begin_send();
  begin_receive();
}

bool Peers::advance() {
  const bool received = receive();
  return send() || received;
}

void Peers::verify() const {
  if (receiving_.has_value()) {
    from_.verify();
  }
  if (sending_.has_value()) {
    to_.verify();
  }
}

void Peers::begin_send() {
  sending_.reset();
  while (next_send_ < to_member_.size() && !sending_.has_value()) {
    const Exchange& exchange = to_member_[next_send_++];
    if (pace_.has_value()) {
      pace_->next(exchange, ours(exchange));
    }
    if (ours(exchange)) {
      const std::size_t bytes = static_cast<std::size_t>(exchange.extent.count()) * item_;
      sending_.emplace(data_ == nullptr ? nullptr : data_ + exchange.extent.first * item_, bytes,
                       tag(kind_, meeting(exchange.peer, rank_, size_)));
      moved_.sent_bytes += static_cast<std::int64_t>(bytes);
      ++moved_.sends;
    }
  }
}

void Peers::begin_receive() {
  receiving_.reset();
  while (next_receive_ < from_member_.size() && !receiving_.has_value()) {
    const Exchange& exchange = from_member_[next_receive_++];
    if (ours(exchange)) {
      const std::size_t bytes = static_cast<std::size_t>(exchange.extent.count()) * item_;
      receiving_.emplace(nullptr, bytes, tag(kind_, meeting(rank_, exchange.peer, size_)));
      moved_.received_bytes += static_cast<std::int64_t>(bytes);
      ++moved_.receives;
    }
  }
}

bool Peers::send() {
  due_ = kNever;
  if (!sending_.has_value() || !to_.ready()) {
    return false;
  }
  const std::int64_t time = pace_.has_value() ? pace_->release(sending_->next_share()) : now(), at = let_go(time);
  if (now() < at) {
    due_ = at;
    return false;
  }
  sending_->advance(to_, time);
  if (sending_->done()) {
    begin_send();
  }
  return true;
}

bool Peers::receive() {
  if (!receiving_.has_value() || !from_.ready()) {
    return false;
  }
  receiving_->advance(from_);
  if (receiving_->done()) {
    begin_receive();
  }
  return true;
}

}  // namespace pruned
