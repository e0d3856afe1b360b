// A bridge carries a FIFO from one host to another: a file of one name on both, and a stream in between.
//
// On the sender's host the bridge is who receives from the FIFO, on the receiver's host who sends into it, so the
// parties notice nothing of it. A slice travels as its size, tag and stamp (16 bytes) and its data. Nothing is read from
// the stream before there is a slot for it, so the stream's own flow control reaches the sender. Stamps stay, for both
// hosts go by one clock (clock.h): what is paced by them does not wait for the way. Both hosts have one order of bytes, as
// with all that they exchange.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "bell.h"
#include "fifo.h"

namespace pruned {

/// The name of a FIFO, and those of the bells of its two ends.
struct Link {
  std::string fifo;
  std::string sender_bell;
  std::string receiver_bell;
};

Link group_link(const std::string& group, Party from, Party to);
/// Of the edge above a member of a tree.
Link edge_link(const std::string& group, Party from, Party to, int tree, int child, bool up);
Link pipe_link(const std::string& pipe);

/// A connected stream socket, closed with the object.
class Stream {
 public:
  explicit Stream(int descriptor) : descriptor_(descriptor) {}
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Sends or receives some bytes, waiting until `deadline` at most; how many. Throws PeerLost if the connection is.
  std::size_t write(const std::byte* data, std::size_t bytes, std::int64_t deadline);
  std::size_t read(std::byte* data, std::size_t bytes, std::int64_t deadline);
  /// Whether the other side has ended the stream, as the last read found.
  bool ended() const { return ended_; }

 private:
  bool wait(short events, std::int64_t deadline) const;

  int descriptor_;
  bool ended_ = false;
};

class Bridge {
 public:
  Bridge() = default;
  Bridge(const Bridge&) = delete;
  Bridge& operator=(const Bridge&) = delete;
  virtual ~Bridge() = default;

  /// Carries what there is for a while; true when the other side has ended the stream. Throws Aborted, PeerLost.
  bool turn();

 protected:
  Bridge(std::shared_ptr<Directory> directory, const std::string& own_bell, int descriptor)
      : directory_(std::move(directory)), bell_(*directory_, own_bell), stream_(descriptor) {}

  /// What comes with a slice on its way.
  struct Frame {
    std::uint32_t bytes;
    std::uint32_t tag;
    std::int64_t stamp;
  };

  std::shared_ptr<Directory> directory_;
  Bell bell_;
  Stream stream_;
  Frame frame_{};
  std::size_t moved_ = 0;  // bytes of the slice that is on its way, its frame included

 private:
  virtual bool ready() const = 0;
  /// Moves some of a slice; the FIFO is ready.
  virtual void carry(std::int64_t deadline) = 0;
  virtual void verify() const = 0;
};

/// Out of a FIFO into the stream.
class BridgeOut final : public Bridge {
 public:
  BridgeOut(std::shared_ptr<Directory> directory, const Link& link, int descriptor);

 private:
  bool ready() const override { return inlet_.ready(); }
  void carry(std::int64_t deadline) override;
  void verify() const override { inlet_.verify(); }

  Inlet inlet_;
};

/// Out of the stream into a FIFO.
class BridgeIn final : public Bridge {
 public:
  BridgeIn(std::shared_ptr<Directory> directory, const Link& link, int descriptor);

 private:
  bool ready() const override { return outlet_.ready(); }
  void carry(std::int64_t deadline) override;
  void verify() const override { outlet_.verify(); }

  Outlet outlet_;
};

}  // namespace pruned
