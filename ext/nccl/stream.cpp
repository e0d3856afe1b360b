#include "stream.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "clock.h"
#include "errors.h"

namespace pruned {
namespace {

constexpr std::size_t kSizeBytes = sizeof(std::uint32_t);
constexpr std::size_t kSealedBytes = kSizeBytes + kRecordBytes + kTagBytes;
// So much is read at once although it may belong to the records behind: many of them, where they are small.
constexpr std::size_t kAhead = 64 * 1024;

std::size_t moved(ssize_t result) {
  if (result < 0 && errno != EAGAIN && errno != EINTR) {
    throw PeerLost(std::string("the connection to the other host is lost: ") + std::strerror(errno));
  }
  return result < 0 ? 0 : static_cast<std::size_t>(result);
}

}  // namespace

Connection::~Connection() { close(descriptor_); }

std::size_t Connection::write(const std::byte* data, std::size_t bytes) {
  return moved(send(descriptor_, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL));
}

std::size_t Connection::read(std::byte* data, std::size_t bytes) {
  const ssize_t received = recv(descriptor_, data, bytes, MSG_DONTWAIT);
  ended_ = received == 0;
  return moved(received);
}

void Connection::wait(short events, std::int64_t deadline) const {
  pollfd poller{.fd = descriptor_, .events = events, .revents = 0};
  const std::int64_t left = std::max(deadline - now(), std::int64_t{0});
  poll(&poller, 1, static_cast<int>((left + kMillisecond - 1) / kMillisecond));
}

// -- out -------------------------------------------------------------------------------------------------------------

RecordsOut::RecordsOut(int descriptor, const Cipher& cipher, const Key& key)
    : connection_(descriptor), seal_(cipher, key), buffer_(std::make_unique_for_overwrite<std::byte[]>(kSealedBytes)) {}

void RecordsOut::add(const void* data, std::size_t bytes) {
  std::memcpy(contents() + filled_, data, bytes);
  filled_ += bytes;
}

void RecordsOut::flush(std::int64_t deadline) {
  if (left_ == 0 && filled_ > 0) {
    const auto size = static_cast<std::uint32_t>(seal_.close(contents(), filled_));
    std::memcpy(buffer_.get(), &size, kSizeBytes);
    filled_ = sent_ = 0;
    left_ = kSizeBytes + size;
  }
  while (left_ > 0) {
    const std::size_t written = connection_.write(buffer_.get() + sent_, left_);
    sent_ += written;
    left_ -= written;
    if (written == 0) {
      if (now() >= deadline) {
        return;
      }
      connection_.wait(POLLOUT, deadline);
    }
  }
}

// -- in --------------------------------------------------------------------------------------------------------------

RecordsIn::RecordsIn(int descriptor, const Cipher& cipher, const Key& key)
    : connection_(descriptor),
      seal_(cipher, key),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(kSealedBytes + kAhead)) {}

void RecordsIn::bring(std::int64_t deadline) {
  while (!open() && read(deadline)) {
  }
}

std::size_t RecordsIn::coming() const {
  if (filled_ - next_ < kSizeBytes) {
    return 0;
  }
  std::uint32_t size = 0;
  std::memcpy(&size, buffer_.get() + next_, kSizeBytes);
  if (size < kTagBytes || size > kRecordBytes + kTagBytes) {
    throw Mismatch("the stream from the other host holds no records");
  }
  return kSizeBytes + size;
}

bool RecordsIn::open() {
  const std::size_t size = coming();
  if (size == 0 || filled_ - next_ < size) {
    return false;
  }
  taken_ = next_ + kSizeBytes;
  open_ = taken_ + seal_.open(buffer_.get() + taken_, size - kSizeBytes);
  next_ += size;
  return true;
}

bool RecordsIn::read(std::int64_t deadline) {
  std::memmove(buffer_.get(), buffer_.get() + next_, filled_ - next_);
  filled_ -= next_;
  taken_ = open_ = next_ = 0;
  const std::size_t wanted = std::max(kAhead, coming() - std::min(coming(), filled_));
  std::size_t received = connection_.read(buffer_.get() + filled_, wanted);
  if (received == 0 && !connection_.ended()) {
    connection_.wait(POLLIN, deadline);
    received = connection_.read(buffer_.get() + filled_, wanted);
  }
  if (connection_.ended() && filled_ > 0) {
    throw PeerLost("the other host ended the connection within a record");
  }
  filled_ += received;
  return received > 0;
}

}  // namespace pruned
