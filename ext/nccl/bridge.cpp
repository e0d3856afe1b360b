#include "bridge.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "clock.h"
#include "errors.h"

namespace pruned {
Link group_link(const std::string& group, Party from, Party to) {
  return {fifo_name(group, from, to), bell_name(group, from), bell_name(group, to)};
}

Link edge_link(const std::string& group, Party from, Party to, int tree, int child, bool up) {
  return {tree_fifo_name(group, tree, child, up), bell_name(group, from), bell_name(group, to)};
}

Link pipe_link(const std::string& pipe) {
  return {pipe_name(pipe), pipe_bell_name(pipe, true), pipe_bell_name(pipe, false)};
}

Stream::~Stream() { close(descriptor_); }

bool Stream::wait(short events, std::int64_t deadline) const {
  pollfd poller{.fd = descriptor_, .events = events, .revents = 0};
  const std::int64_t left = std::max(deadline - now(), std::int64_t{0});
  return poll(&poller, 1, static_cast<int>((left + kMillisecond - 1) / kMillisecond)) > 0;
}

std::size_t Stream::write(const std::byte* data, std::size_t bytes, std::int64_t deadline) {
  if (!wait(POLLOUT, deadline)) {
    return 0;
  }
  const ssize_t sent = send(descriptor_, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) {
    throw PeerLost(std::string("the connection to the other host is lost: ") + std::strerror(errno));
  }
  return sent < 0 ? 0 : static_cast<std::size_t>(sent);
}

std::size_t Stream::read(std::byte* data, std::size_t bytes, std::int64_t deadline) {
  if (!wait(POLLIN, deadline)) {
    return 0;
  }
  const ssize_t received = recv(descriptor_, data, bytes, MSG_DONTWAIT);
  if (received < 0 && errno != EAGAIN && errno != EINTR) {
    throw PeerLost(std::string("the connection to the other host is lost: ") + std::strerror(errno));
  }
  ended_ = received == 0;
  return received < 0 ? 0 : static_cast<std::size_t>(received);
}

bool Bridge::turn() {
  const std::int64_t end = now() + kTurn;
  while (now() < end) {
    directory_->check();
    const std::uint32_t seen = bell_.rings();
    if (ready()) {
      carry(end);
    } else if (!bell_.wait(seen, end)) {
      return false;
    }
    if (stream_.ended()) {
      return true;
    }
  }
  verify();
  return false;
}

BridgeOut::BridgeOut(std::shared_ptr<Directory> directory, const Link& link, int descriptor)
    : Bridge(std::move(directory), link.receiver_bell, descriptor),
      inlet_(*directory_, link.fifo, std::make_shared<Bell>(*directory_, link.sender_bell)) {}

void BridgeOut::carry(std::int64_t deadline) {
  const Slice slice = inlet_.front();
  frame_ = {.bytes = static_cast<std::uint32_t>(slice.data.size()), .tag = slice.tag, .stamp = slice.stamp};
  if (moved_ < sizeof frame_) {
    moved_ += stream_.write(reinterpret_cast<const std::byte*>(&frame_) + moved_, sizeof frame_ - moved_, deadline);
  } else {
    const std::size_t sent = moved_ - sizeof frame_;
    moved_ += stream_.write(slice.data.data() + sent, slice.data.size() - sent, deadline);
  }
  if (moved_ == sizeof frame_ + slice.data.size()) {
    inlet_.release();
    moved_ = 0;
  }
}

BridgeIn::BridgeIn(std::shared_ptr<Directory> directory, const Link& link, int descriptor)
    : Bridge(std::move(directory), link.sender_bell, descriptor),
      outlet_(*directory_, link.fifo, std::make_shared<Bell>(*directory_, link.receiver_bell)) {}

void BridgeIn::carry(std::int64_t deadline) {
  if (moved_ < sizeof frame_) {
    moved_ += stream_.read(reinterpret_cast<std::byte*>(&frame_) + moved_, sizeof frame_ - moved_, deadline);
    if (moved_ == sizeof frame_ && frame_.bytes > kSlotBytes) {
      throw Mismatch("the stream from the other host holds no slices");
    }
  } else {
    const std::size_t received = moved_ - sizeof frame_;
    moved_ += stream_.read(outlet_.slot().data() + received, frame_.bytes - received, deadline);
  }
  if (stream_.ended() && moved_ > 0) {
    throw PeerLost("the other host ended the connection within a slice");
  }
  if (moved_ >= sizeof frame_ && moved_ == sizeof frame_ + frame_.bytes) {
    outlet_.publish(frame_.bytes, frame_.tag, frame_.stamp);
    moved_ = 0;
  }
}

}  // namespace pruned
