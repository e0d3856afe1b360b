#include "bridge.h"

#include <algorithm>
#include <cstring>
#include <span>
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

bool Bridge::turn() {
  const std::int64_t end = now() + kTurn;
  Wakes wakes;
  while (now() < end) {
    directory_->check();
    carry(bell_.rings(), end, wakes);
    if (ended()) {
      return true;
    }
  }
  verify();
  return false;
}

BridgeOut::BridgeOut(std::shared_ptr<Directory> directory, const Link& link, int descriptor, const Cipher& cipher,
                     const Key& key)
    : Bridge(std::move(directory), link.receiver_bell),
      inlet_(*directory_, link.fifo, std::make_shared<Bell>(*directory_, link.sender_bell)),
      records_(descriptor, cipher, key) {}

void BridgeOut::carry(std::uint32_t seen, std::int64_t deadline, Wakes& wakes) {
  while (inlet_.ready()) {
    const Slice slice = inlet_.front();
    if (!records_.fits(sizeof(Frame) + slice.data.size())) {
      break;
    }
    const Frame frame{.bytes = static_cast<std::uint32_t>(slice.data.size()), .tag = slice.tag, .stamp = slice.stamp};
    records_.add(&frame, sizeof frame);
    records_.add(slice.data.data(), slice.data.size());
    inlet_.release();
  }
  wakes.settle();
  if (records_.empty()) {
    bell_.wait(seen, deadline);
  } else {
    records_.flush(deadline);
  }
}

BridgeIn::BridgeIn(std::shared_ptr<Directory> directory, const Link& link, int descriptor, const Cipher& cipher,
                   const Key& key)
    : Bridge(std::move(directory), link.sender_bell),
      outlet_(*directory_, link.fifo, std::make_shared<Bell>(*directory_, link.receiver_bell)),
      records_(descriptor, cipher, key) {}

void BridgeIn::carry(std::uint32_t seen, std::int64_t deadline, Wakes& wakes) {
  if (records_.left().empty()) {
    wakes.settle();
    records_.bring(deadline);
    return;
  }
  const Frame frame = next();
  if (!outlet_.ready()) {
    wakes.settle();
    bell_.wait(seen, deadline);
  } else if (frame.stamp > now()) {
    wakes.settle();
    bell_.wait_sharp(seen, std::min(frame.stamp, deadline));
  } else {
    std::memcpy(outlet_.slot().data(), records_.left().data() + sizeof frame, frame.bytes);
    records_.take(sizeof frame + frame.bytes);
    outlet_.publish(frame.bytes, frame.tag, frame.stamp);
  }
}

BridgeIn::Frame BridgeIn::next() const {
  const std::span<const std::byte> left = records_.left();
  Frame frame{};
  if (left.size() >= sizeof frame) {
    std::memcpy(&frame, left.data(), sizeof frame);
  }
  if (left.size() < sizeof frame || frame.bytes > std::min(kSlotBytes, left.size() - sizeof frame)) {
    throw Mismatch("the stream from the other host holds no slices");
  }
  return frame;
}

}  // namespace pruned
