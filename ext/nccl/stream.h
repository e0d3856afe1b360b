// A connected socket on which records (seal.h) go out, or come in.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "fifo.h"
#include "seal.h"

namespace pruned {

/// What a record holds at most: a slice and what comes with it, or many that are small.
constexpr std::size_t kRecordBytes = kSlotBytes + 4096;

/// A connected socket, closed with the object.
class Connection {
 public:
  explicit Connection(int descriptor) : descriptor_(descriptor) {}
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Some bytes, without waiting; how many. Throws PeerLost if the connection is.
  std::size_t write(const std::byte* data, std::size_t bytes);
  std::size_t read(std::byte* data, std::size_t bytes);
  /// Waits until it can be read or written (POLLIN, POLLOUT), until `deadline` at most.
  void wait(short events, std::int64_t deadline) const;
  /// Whether the other side has ended it, as the last read found.
  bool ended() const { return ended_; }

 private:
  int descriptor_;
  bool ended_ = false;
};

class RecordsOut {
 public:
  RecordsOut(int descriptor, const Cipher& cipher, const Key& key);

  /// Whether so many bytes more go into the record that is being made; none do while one is on its way.
  bool fits(std::size_t bytes) const { return left_ == 0 && filled_ + bytes <= kRecordBytes; }
  void add(const void* data, std::size_t bytes);
  bool empty() const { return left_ == 0 && filled_ == 0; }
  /// Sends on what was added, waiting until `deadline` at most.
  void flush(std::int64_t deadline);

 private:
  std::byte* contents() const { return buffer_.get() + sizeof(std::uint32_t); }

  Connection connection_;
  Seal seal_;
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t filled_ = 0;  // of the contents of the record that is being made
  std::size_t sent_ = 0;    // of the one that is on its way
  std::size_t left_ = 0;
};

class RecordsIn {
 public:
  RecordsIn(int descriptor, const Cipher& cipher, const Key& key);

  /// What is left of a record; none if nothing has come yet.
  std::span<const std::byte> left() const { return {buffer_.get() + taken_, open_ - taken_}; }
  /// Drops so many bytes of what is left.
  void take(std::size_t bytes) { taken_ += bytes; }
  /// Brings the next record, waiting until `deadline` at most; nothing is left of the one before. Throws Mismatch.
  void bring(std::int64_t deadline);
  bool ended() const { return connection_.ended(); }

 private:
  /// Opens what comes next, if all of it is here.
  bool open();
  /// Reads on; false if nothing came.
  bool read(std::int64_t deadline);
  /// The size of what comes next as it was sent, 0 if not even that has come.
  std::size_t coming() const;

  Connection connection_;
  Seal seal_;
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t taken_ = 0;  // what is left of the open record begins here
  std::size_t open_ = 0;   // and ends here
  std::size_t next_ = 0;   // the record behind it begins here
  std::size_t filled_ = 0;
};

}  // namespace pruned
