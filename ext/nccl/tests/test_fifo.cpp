// FIFOs and what waits on them: attaching in either order, running full and round, and everything that ends a wait.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>

#include "../errors.h"
#include "../fifo.h"
#include "../message.h"
#include "check.h"
#include "harness.h"
#include "tests.h"

namespace pruned::testing {
namespace {

struct Ends {
  explicit Ends(Directory& files, const std::string& name)
      : bell(std::make_shared<Bell>(files, name + ".bell")), out(files, name, bell), in(files, name, bell) {}

  std::shared_ptr<Bell> bell;
  Outlet out;
  Inlet in;
};

void put(Outlet& outlet, int value) {
  std::memcpy(outlet.slot().data(), &value, sizeof value);
  outlet.publish(sizeof value, 7);
}

int get(Inlet& inlet) {
  int value = 0;
  std::memcpy(&value, inlet.front(sizeof value, 7).data.data(), sizeof value);
  inlet.release();
  return value;
}

void check_slots(Directory& files) {
  Ends ends(files, "slots");
  CHECK(!ends.in.ready() && ends.out.empty(), "a new FIFO is empty");
  for (int i = 0; i < kSlots; ++i) {
    CHECK(ends.out.ready(), "there is a free slot");
    put(ends.out, i);
  }
  CHECK(!ends.out.ready(), "it is full");
  for (int i = 0; i < 1000; ++i) {
    CHECK(get(ends.in) == i && ends.out.ready(), "first in, first out");
    put(ends.out, i + kSlots);
  }
}

/// Who sleeps is woken by whoever puts off waking it: in the end, before it waits itself, and after so many rings.
void check_wakes(Directory& files) {
  for (int rings : {1, 3, kSlots, kSlots + 1}) {
    Bell bell(files, "sleeper");
    const std::uint32_t seen = bell.rings();
    std::atomic<bool> woken = false;
    std::thread sleeper([&] {
      const std::int64_t deadline = now() + 20'000 * kMillisecond;
      while (bell.rings() == seen && now() < deadline) {
        bell.wait(seen, deadline);
      }
      woken = now() < deadline;
    });
    const auto words = files.open("sleeper", 2 * sizeof(std::uint32_t));  // rings, sleepers
    while (std::atomic_ref(reinterpret_cast<std::uint32_t*>(words->data())[1]).load() == 0) {
      std::this_thread::yield();
    }
    {
      Wakes wakes;
      for (int i = 0; i < rings; ++i) {
        bell.ring(false);
      }
      if (rings == 3) {
        wakes.settle();
        sleeper.join();
      }
    }
    if (sleeper.joinable()) {
      sleeper.join();
    }
    CHECK(woken, "a sleeper is woken");
  }
}

/// The counts are 32 bits wide, and go round.
void check_wrap(Directory& files) {
  const auto file = files.open("wrap", 4096 + kSlots * kSlotBytes);
  const std::uint32_t count = 0xFFFF'FFFEU;
  std::memcpy(file->data(), &count, sizeof count);
  std::memcpy(file->data() + 64, &count, sizeof count);
  Ends ends(files, "wrap");
  for (int i = 0; i < 5; ++i) {
    put(ends.out, i);
  }
  for (int i = 0; i < 5; ++i) {
    CHECK(get(ends.in) == i, "it goes on past 2^32");
  }
  CHECK(ends.out.empty(), "and is empty again");
}

void check_attaching(Directory& files) {
  const auto bell = std::make_shared<Bell>(files, "bell");
  {
    Outlet first(files, "late receiver", bell);
    put(first, 42);
  }
  Inlet receiver(files, "late receiver", bell);
  CHECK(get(receiver) == 42, "what was sent before the receiver came");
  Inlet waiting(files, "late sender", bell);
  CHECK(!waiting.ready(), "nobody has sent");
  Outlet late(files, "late sender", bell);
  put(late, 43);
  CHECK(get(waiting) == 43, "the sender came last");
}

void check_mismatch(Directory& files) {
  Ends ends(files, "mismatch");
  put(ends.out, 1);
  check_throws<Mismatch>([&] { ends.in.front(8, 7); }, "another size");
  check_throws<Mismatch>([&] { ends.in.front(4, 8); }, "another step");
  CHECK(get(ends.in) == 1, "it is still there for who expects it");
  MessageSend send(nullptr, 3, 0, 0, ends.out);
  CHECK(take_turns({&send}, 1), "a message is sent");
  MessageReceive receive(nullptr, 4, ends.in);
  check_throws<Mismatch>([&] { take_turns({&receive}, 1); }, "a message of another size");
}

/// A child takes one end and is gone.
void check_lost(Directory& files) {
  const auto bell = std::make_shared<Bell>(files, "bell");
  const pid_t child = fork();
  if (child == 0) {
    Inlet inlet(files, "to the child", bell);
    Outlet outlet(files, "from the child", bell);
    put(outlet, 5);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  Outlet outlet(files, "to the child", bell);
  Inlet inlet(files, "from the child", bell);
  inlet.verify();
  CHECK(get(inlet) == 5, "what it sent before it went");
  check_throws<PeerLost>([&] { inlet.verify(); }, "nothing more will come");
  outlet.verify();
  for (int i = 0; i < kSlots; ++i) {
    put(outlet, i);
  }
  check_throws<PeerLost>([&] { outlet.verify(); }, "nobody will take it");
}

void check_abort() {
  const TemporaryDirectory path;
  Directory files(path.path());
  Ends ends(files, "off");  // not the name of the file that calls all off
  std::string told;
  std::thread waiting([&] {
    MessageReceive receive(nullptr, 1, ends.in);
    try {
      while (!drive(receive, *ends.bell, files)) {
      }
    } catch (const Aborted& aborted) {
      told = aborted.what();
    }
  });
  const std::string reason = "rank 3 was lost; " + std::string(1000, 'x');
  Directory(path.path()).abort(reason);
  waiting.join();
  CHECK(told.size() == 503 && reason.starts_with(told), "an abort ends a wait, and says why as far as there is room");
  Directory(path.path()).abort("another reason");
  check_throws<Aborted>([&] { files.check(); }, "it stays aborted");
  try {
    files.check();
  } catch (const Aborted& aborted) {
    CHECK(aborted.what() == told, "the first reason is kept");
  }
}

void check_times(Directory& files) {
  Ends ends(files, "times");
  const std::int64_t start = now() + 3 * kMillisecond;
  MessageSend send(nullptr, 3 * kSlotBytes, start, 3 * kMillisecond, ends.out);
  while (!drive(send, *ends.bell, files)) {
  }
  for (int i = 1; i <= 3; ++i) {
    const Slice slice = ends.in.front(kSlotBytes, mark(3 * kSlotBytes));
    CHECK(slice.stamp >= start + i * kMillisecond, "no slice goes before its time");
    ends.in.release();
  }
}

void check_names() {
  const Party m{Party::Role::kMember, 1}, a{Party::Role::kArc, 1};
  const std::string odd = fifo_name("a/b c.%", m, a);
  CHECK(odd.find('/') == std::string::npos && odd != fifo_name("a_b c.%", m, a),
        "any group has a file name of its own");
  CHECK(fifo_name("g", m, a) != fifo_name("g", a, m), "each direction has a name");
  const std::string x(1000, 'x');
  CHECK(fifo_name(x + "1", m, a).size() < 250 && fifo_name(x + "1", m, a) != fifo_name(x + "2", m, a), "however long");
}

/// A file for which there is no room is refused, and not a signal to whoever writes into it later.
void check_room(Directory& files) {
  try {
    files.open("huge", std::size_t{1} << 50);
    fail("a PiB was mapped");
  } catch (const std::system_error& error) {
    CHECK(error.code() == std::errc::no_space_on_device, error.what());
    CHECK(std::string(error.what()).find("find 1125899906842624 bytes, ") != std::string::npos, error.what());
  }
}

}  // namespace

void test_fifo() {
  const TemporaryDirectory path;
  Directory files(path.path());
  check_slots(files);
  check_wakes(files);
  check_wrap(files);
  check_attaching(files);
  check_mismatch(files);
  check_lost(files);
  check_abort();
  check_times(files);
  check_names();
  check_room(files);
}

}  // namespace pruned::testing
