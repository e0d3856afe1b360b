// Messages from one host's directory to another's, over a pair of connected sockets.

#include "../bridge.h"

#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "../clock.h"
#include "../errors.h"
#include "../message.h"
#include "check.h"
#include "harness.h"
#include "tests.h"
#include "toy_cipher.h"

namespace pruned::testing {
namespace {

const Key kKey{std::byte{7}, std::byte{1}};

struct Host {
  TemporaryDirectory path;
  std::shared_ptr<Directory> directory = std::make_shared<Directory>(path.path());
  Link link = pipe_link("pipe");

  std::shared_ptr<Bell> bell(const std::string& name) const { return std::make_shared<Bell>(*directory, name); }
};

/// Two hosts and what carries a pipe from one to the other, while it lives.
class Bridged {
 public:
  Bridged() {
    int sockets[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "sockets");
    out_ = std::thread([this, socket = sockets[0]] {
      BridgeOut bridge(here.directory, here.link, socket, toy_cipher(), kKey);
      while (!stop_) {
        bridge.turn();
      }
    });
    in_ = std::thread([this, socket = sockets[1]] {
      BridgeIn bridge(there.directory, there.link, socket, toy_cipher(), kKey);
      while (!bridge.turn()) {
      }
    });
  }
  ~Bridged() {
    stop_ = true;
    out_.join();
    in_.join();
  }
  Bridged(const Bridged&) = delete;
  Bridged& operator=(const Bridged&) = delete;

  const Host here, there;

 private:
  std::atomic<bool> stop_ = false;
  std::thread out_, in_;
};

void run(Activity& activity, Bell& bell, const Host& host) {
  while (!drive(activity, bell, *host.directory)) {
  }
}

/// Each arrives as it was sent, behind the one before it; none before its time, if all have one.
void check_messages(const std::vector<std::size_t>& sizes, std::int64_t start = 0) {
  Bridged hosts;
  std::vector<Bytes> sent;
  for (const std::size_t bytes : sizes) {
    sent.push_back(random_values(Dtype::kUint8, static_cast<std::int64_t>(bytes), 3));
  }
  std::thread sender([&] {
    Outlet outlet(*hosts.here.directory, hosts.here.link.fifo, hosts.here.bell(hosts.here.link.receiver_bell));
    const auto bell = hosts.here.bell(hosts.here.link.sender_bell);
    for (const Bytes& message : sent) {
      MessageSend send(message.data(), message.size(), start, 0, outlet);
      run(send, *bell, hosts.here);
    }
  });
  Inlet inlet(*hosts.there.directory, hosts.there.link.fifo, hosts.there.bell(hosts.there.link.sender_bell));
  const auto bell = hosts.there.bell(hosts.there.link.receiver_bell);
  for (const Bytes& message : sent) {
    Bytes got(message.size());
    MessageReceive receive(got.data(), got.size(), inlet);
    run(receive, *bell, hosts.there);
    CHECK(got == message, "it arrives as it was sent");
    CHECK(now() >= start, "it is there when it is due");
  }
  sender.join();
}

/// What is let go before its time leaves at once, and is held where it arrives.
void check_lead() {
  clock_lead = 100 * kMillisecond;
  check_messages({0, 100, 3 * kSlotBytes}, now() + 60 * kMillisecond);
  clock_lead = 0;
}

void check_garbage() {
  const Host host;
  int sockets[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "sockets");
  const std::uint32_t size = 0xFFFF'FFFFU;
  CHECK(send(sockets[0], &size, sizeof size, 0) == sizeof size, "a size is sent");
  const Connection other(sockets[0]);
  BridgeIn bridge(host.directory, host.link, sockets[1], toy_cipher(), kKey);
  check_throws<Mismatch>([&] { bridge.turn(); }, "no record is so large");
}

void check_seal() {
  Seal closing(toy_cipher(), kKey), opening(toy_cipher(), kKey), late(toy_cipher(), kKey);
  std::array<std::byte, 8 + kTagBytes> first{std::byte{1}}, second{std::byte{2}};
  CHECK(closing.close(first.data(), 8) == first.size(), "the tag is behind the contents");
  closing.close(second.data(), 8);
  auto changed = first;
  check_throws<Mismatch>([&] { late.open(second.data(), second.size()); }, "one was left out");
  CHECK(opening.open(first.data(), first.size()) == 8 && first[0] == std::byte{1}, "contents are what they were");
  check_throws<Mismatch>([&] { opening.open(changed.data(), changed.size()); }, "one comes again");
}

}  // namespace

void test_bridge() {
  check_messages({0, 100, 6 * kSlotBytes + 17});
  check_messages(std::vector<std::size_t>(300, 40));  // many in a record
  check_lead();
  check_garbage();
  check_seal();
}

}  // namespace pruned::testing
