#include "pairwise_member.h"

#include <cstring>

namespace pruned {
namespace {

std::size_t bytes(const Extent& extent, std::size_t item) { return static_cast<std::size_t>(extent.count()) * item; }

}  // namespace

PairwiseMember::PairwiseMember(const Op& op, const Buffers& buffers, Ports& ports)
    : kind_(op.kind),
      size_(op.size),
      rank_(ports.self().rank),
      item_(op.item()),
      buffers_(buffers),
      ports_(ports),
      outgoing_(outgoing(op, rank_)),
      incoming_(incoming(op, rank_)) {
  const OwnBlock own = own_block(op, rank_);
  if (own.input.count() > 0) {
    // In place they are the same bytes.
    std::memmove(buffers.output + own.output.first * item_, buffers.input + own.input.first * item_,
                 bytes(own.input, item_));
  }
  begin_send();
  begin_receive();
}

bool PairwiseMember::advance() {
  const bool received = receive();
  return send() || received;
}

void PairwiseMember::verify() const {
  if (receiving_.has_value()) {
    inlet_->verify();
  }
  if (sending_.has_value()) {
    outlet_->verify();
  }
}

void PairwiseMember::begin_send() {
  sending_.reset();
  if (moved_.sends < std::ssize(outgoing_)) {
    const Exchange& exchange = outgoing_[moved_.sends];
    outlet_ = &ports_.to(ports_.peer(exchange.peer));
    sending_.emplace(buffers_.input == nullptr ? nullptr : buffers_.input + exchange.extent.first * item_,
                     bytes(exchange.extent, item_), tag(kind_, meeting(rank_, exchange.peer, size_)));
  }
}

void PairwiseMember::begin_receive() {
  receiving_.reset();
  if (moved_.receives < std::ssize(incoming_)) {
    const Exchange& exchange = incoming_[moved_.receives];
    inlet_ = &ports_.from(ports_.peer(exchange.peer));
    receiving_.emplace(buffers_.output == nullptr ? nullptr : buffers_.output + exchange.extent.first * item_,
                       bytes(exchange.extent, item_), tag(kind_, meeting(exchange.peer, rank_, size_)));
  }
}

bool PairwiseMember::send() {
  if (!sending_.has_value() || !outlet_->ready()) {
    return false;
  }
  sending_->advance(*outlet_);
  if (sending_->done()) {
    moved_.sent_bytes += static_cast<std::int64_t>(bytes(outgoing_[moved_.sends].extent, item_));
    ++moved_.sends;
    begin_send();
  }
  return true;
}

bool PairwiseMember::receive() {
  if (!receiving_.has_value() || !inlet_->ready()) {
    return false;
  }
  receiving_->advance(*inlet_);
  if (receiving_->done()) {
    moved_.received_bytes += static_cast<std::int64_t>(bytes(incoming_[moved_.receives].extent, item_));
    ++moved_.receives;
    begin_receive();
  }
  return true;
}

}  // namespace pruned
