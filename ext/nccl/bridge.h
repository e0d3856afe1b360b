// A bridge carries a FIFO from one host to another: a file of one name on both, and a stream of records in between.
//
// On the sender's host the bridge is who receives from the FIFO, on the receiver's host who sends into it, so the
// parties notice nothing of it. A slice travels as its size, tag and stamp (16 bytes) and its data; all that are there
// go in one record (stream.h), so small ones share what a record costs. No record is opened before there was a slot for
// all slices of the one before it, so the stream's own flow control reaches the sender. Stamps stay, for both hosts go
// by one clock (clock.h). A slice that is here before its time waits for it, so what is sent ahead does not show the way
// that it took. Both hosts have one order of bytes, as with all that they exchange.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "bell.h"
#include "fifo.h"
#include "stream.h"

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

class Bridge {
 public:
  Bridge() = default;
  Bridge(const Bridge&) = delete;
  Bridge& operator=(const Bridge&) = delete;
  virtual ~Bridge() = default;

  /// Carries what there is for a while; true when the other side has ended the stream. Throws Aborted, PeerLost, and
  /// Mismatch if what comes is not the other side's.
  bool turn();

 protected:
  Bridge(std::shared_ptr<Directory> directory, const std::string& own_bell)
      : directory_(std::move(directory)), bell_(*directory_, own_bell) {}

  /// What comes with a slice on its way.
  struct Frame {
    std::uint32_t bytes;
    std::uint32_t tag;
    std::int64_t stamp;
  };

  std::shared_ptr<Directory> directory_;
  Bell bell_;

 private:
  /// Moves what can move, and if that is nothing waits for more until `deadline` at most. `seen`: rings before that.
  virtual void carry(std::uint32_t seen, std::int64_t deadline, Wakes& wakes) = 0;
  virtual bool ended() const = 0;
  virtual void verify() const = 0;
};

/// Out of a FIFO into the stream.
class BridgeOut final : public Bridge {
 public:
  BridgeOut(std::shared_ptr<Directory> directory, const Link& link, int descriptor, const Cipher& cipher,
            const Key& key);

 private:
  void carry(std::uint32_t seen, std::int64_t deadline, Wakes& wakes) override;
  bool ended() const override { return false; }
  void verify() const override { inlet_.verify(); }

  Inlet inlet_;
  RecordsOut records_;
};

/// Out of the stream into a FIFO.
class BridgeIn final : public Bridge {
 public:
  BridgeIn(std::shared_ptr<Directory> directory, const Link& link, int descriptor, const Cipher& cipher,
           const Key& key);

 private:
  void carry(std::uint32_t seen, std::int64_t deadline, Wakes& wakes) override;
  bool ended() const override { return records_.ended() && records_.left().empty(); }
  void verify() const override { outlet_.verify(); }
  Frame next() const;

  Outlet outlet_;
  RecordsIn records_;
};

}  // namespace pruned
