// A message from one host's directory to another's, over a pair of connected sockets.

#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "../bridge.h"
#include "../errors.h"
#include "../message.h"
#include "check.h"
#include "harness.h"
#include "tests.h"

namespace pruned::testing {
namespace {

struct Host {
  TemporaryDirectory path;
  std::shared_ptr<Directory> directory = std::make_shared<Directory>(path.path());
  Link link = pipe_link("pipe");

  std::shared_ptr<Bell> bell(const std::string& name) const { return std::make_shared<Bell>(*directory, name); }
};

void run(Activity& activity, Bell& bell, const Host& host) {
  while (!drive(activity, bell, *host.directory)) {
  }
}

void check_message(std::size_t bytes) {
  const Host here, there;
  int sockets[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "sockets");
  const Bytes sent = random_values(Dtype::kUint8, static_cast<std::int64_t>(bytes), 3);
  Bytes got(bytes);
  std::atomic<bool> stop = false;
  std::thread out([&] {
    BridgeOut bridge(here.directory, here.link, sockets[0]);
    while (!stop) {
      bridge.turn();
    }
  });
  std::thread in([&] {
    BridgeIn bridge(there.directory, there.link, sockets[1]);
    while (!bridge.turn()) {
    }
  });
  std::thread sender([&] {
    Outlet outlet(*here.directory, here.link.fifo, here.bell(here.link.receiver_bell));
    MessageSend send(sent.data(), bytes, 0, 0, outlet);
    run(send, *here.bell(here.link.sender_bell), here);
  });
  Inlet inlet(*there.directory, there.link.fifo, there.bell(there.link.sender_bell));
  MessageReceive receive(got.data(), bytes, inlet);
  run(receive, *there.bell(there.link.receiver_bell), there);
  stop = true;
  sender.join();
  out.join();
  in.join();
  CHECK(got == sent, "it arrives as it was sent");
}

void check_garbage() {
  const Host host;
  int sockets[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "sockets");
  const std::uint32_t frame[4] = {0xFFFF'FFFFU, 0, 0, 0};  // as a bridge's: bytes, tag, and a stamp of 8 bytes
  CHECK(send(sockets[0], frame, sizeof frame, 0) == sizeof frame, "a frame is sent");
  const Stream other(sockets[0]);
  BridgeIn bridge(host.directory, host.link, sockets[1]);
  check_throws<Mismatch>([&] { bridge.turn(); }, "no slice is so large");
}

}  // namespace

void test_bridge() {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{100}, 6 * kSlotBytes + 17}) {
    check_message(bytes);
  }
  check_garbage();
}

}  // namespace pruned::testing
