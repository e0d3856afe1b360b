// Payloads read ahead by several threads, over a CUDA of threads: who looks finds all bytes, or a reason.

#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#include "../../tests/check.h"
#include "../../tests/harness.h"
#include "../prefetch.h"
#include "fake_cuda/fake_cuda.h"
#include "tests.h"

namespace pruned::device::testing {
namespace {

void until(const std::function<bool()>& holds) {
  while (!holds()) {
    std::this_thread::yield();
  }
}

/// Operations that bring `head` and `final` of so many bytes each, all in one file; and what a kernel does.
class Scene {
 public:
  /// They are of so many groups, by turns.
  explicit Scene(const std::vector<std::int64_t>& sizes, std::size_t groups = 1)
      : path_(folder_.path() / "payloads"), sizes_(sizes) {
    std::ofstream file(path_, std::ios::binary);
    for (std::size_t entry = 0; entry < sizes.size(); ++entry) {
      const Part head = write(file, static_cast<std::int64_t>(entry), 0);
      const Part final = write(file, static_cast<std::int64_t>(entry), 1);
      readings_.push_back(reading_of({.planned = {}, .head = head, .tail = {}, .final = final, .partners = {}}));
      readings_.back().group = &sizes_[entry % groups];
    }
  }

  void start(std::int64_t pool, int readers, int device = 0) {
    prefetch_ = std::make_unique<Prefetch>(readings_, pool, device, readers, shown);
    prefetch_->start();
  }
  void stop() { prefetch_.reset(); }
  Prefetch& prefetch() { return *prefetch_; }
  std::int64_t count() const { return static_cast<std::int64_t>(sizes_.size()); }
  const std::filesystem::path& path() const { return path_; }

  bool ready(std::int64_t entry) const {
    return std::atomic_ref(prefetch_->payloads()[entry].ready).load(std::memory_order_acquire) != 0;
  }
  /// A kernel looks whether it is there; returns what it found.
  bool look(std::int64_t entry) const {
    const bool there = ready(entry);
    std::atomic_ref(prefetch_->looked()[entry]).store(there ? 1 : 2, std::memory_order_release);
    return there;
  }
  /// Whether it came by a detour.
  bool came_round(std::int64_t entry) const {
    return std::atomic_ref(const_cast<Payload*>(prefetch_->detours())[entry].ready).load(std::memory_order_acquire) != 0;
  }
  void end(std::int64_t entry) const {
    std::atomic_ref(prefetch_->ended()[entry]).store(1, std::memory_order_release);
  }
  /// Whether both parts of one that is there are what was written.
  bool is_right(std::int64_t entry) const { return is_right(entry, prefetch_->payloads()[entry]); }
  bool is_right(std::int64_t entry, const Payload& payload) const {
    for (std::int64_t i = 0; i < sizes_[entry]; ++i) {
      if (payload.head[i] != byte(entry, 0, i) || payload.final[i] != byte(entry, 1, i)) {
        return false;
      }
    }
    return true;
  }
  /// Until it holds, or can no longer as something went wrong.
  void await(const std::function<bool()>& holds) const {
    until([&] { return holds() || !prefetch_->trouble().empty(); });
    CHECK(prefetch_->trouble().empty(), prefetch_->trouble());
  }
  /// Does the operations one by one. On a busy machine threads may seem to be kept, and any may come by a detour.
  void carry_out(std::int64_t first, std::int64_t last) const {
    for (std::int64_t entry = first; entry < last; ++entry) {
      look(entry);
      await([&] { return ready(entry) || came_round(entry); });
      const Payload* payloads = ready(entry) ? prefetch_->payloads() : prefetch_->detours();
      CHECK(is_right(entry, payloads[entry]), "entry " + std::to_string(entry));
      end(entry);
    }
  }
  std::int64_t told() const { return prefetch_->hits() + prefetch_->misses() + prefetch_->stalls(); }

  std::int64_t shown[3] = {};

 private:
  static std::byte byte(std::int64_t entry, int which, std::int64_t i) {
    return static_cast<std::byte>((i >> 12) * 31 + i + entry * 7 + which);
  }
  Part write(std::ofstream& file, std::int64_t entry, int which) {
    const std::int64_t size = sizes_[entry];
    const Part result{size == 0 ? "" : path_.string(), written_, size};
    std::string bytes(static_cast<std::size_t>(size), '\0');
    for (std::int64_t i = 0; i < size; ++i) {
      bytes[i] = static_cast<char>(byte(entry, which, i));
    }
    file.write(bytes.data(), size);
    written_ += size;
    return result;
  }

  pruned::testing::TemporaryDirectory folder_;
  std::filesystem::path path_;
  std::vector<std::int64_t> sizes_;
  std::int64_t written_ = 0;
  std::vector<Reading> readings_;
  std::unique_ptr<Prefetch> prefetch_;
};

constexpr std::int64_t kLong = 2 * kPieceBytes + 5;

void test_in_order() {
  for (const int readers : {1, 4}) {
    Scene scene({3, kLong, 0, 300, kPieceBytes, 1, kLong + 1, 0, 7, kPieceBytes + 1, kLong, 2});
    scene.start(3 * kLong, readers);
    scene.carry_out(0, scene.count());
    scene.await([&] { return scene.told() == scene.count() - 2; });
    CHECK(scene.prefetch().trouble().empty(), scene.prefetch().trouble());
    CHECK(scene.shown[0] == scene.prefetch().hits() && scene.shown[2] == scene.prefetch().stalls(), "the board");
  }
}

/// The pool has room for the largest one only, whatever was asked for.
void test_least_pool() {
  Scene scene({kLong, kLong, 5, kLong});
  scene.start(1, 3);
  CHECK(scene.prefetch().pool_bytes() >= 2 * kLong && scene.prefetch().pool_bytes() < 3 * kLong, "the largest one");
  scene.await([&] { return scene.ready(0); });
  const std::byte* first = scene.prefetch().payloads()[0].head;
  CHECK(scene.is_right(0), "nobody else has its room");
  CHECK(scene.look(0), "it was there");
  scene.end(0);
  scene.await([&] { return scene.ready(1); });
  CHECK(scene.prefetch().payloads()[1].head == first, "its room is given to the next");
  scene.carry_out(1, scene.count());
  scene.await([&] { return scene.told() == scene.count(); });
  CHECK(scene.prefetch().hits() >= 1, "a hit");
}

void test_counts() {
  Scene scene({kLong, kLong});
  const fake_cuda::Capturing capturing;
  {
    const fake_cuda::Held held;
    const long before = fake_cuda::copies();
    std::thread starts([&] {  // as the program may before it captures
      cudaStreamCaptureMode free = cudaStreamCaptureModeRelaxed;
      cudaThreadExchangeStreamCaptureMode(&free);
      scene.start(1, 2);
    });
    starts.join();
    scene.await([&] { return fake_cuda::copies() > before; });
    CHECK(!scene.look(0), "no byte was copied yet");
    scene.await([&] { return scene.told() == 1; });
    CHECK(scene.prefetch().stalls() == 1, "it was being read");
  }
  scene.carry_out(0, 1);
  scene.await([&] { return scene.ready(1); });
  CHECK(scene.look(1), "the second is there");
  scene.await([&] { return scene.told() == 2; });
  CHECK(scene.prefetch().hits() == 1 && scene.shown[0] == 1 && scene.shown[2] == 1, "a hit");
  CHECK(scene.prefetch().trouble().empty(), "a thread was not free to call CUDA: " + scene.prefetch().trouble());
}

/// Somebody comes for one that has no room yet, near or far: it is brought, and its memory given back.
void test_wanted_before_begun() {
  for (const std::int64_t wanted : {3L, 3000L}) {
    Scene scene(std::vector<std::int64_t>(5000, 8));
    scene.start(1, 2);
    scene.await([&] { return scene.ready(0); });
    const long before = fake_cuda::allocations();
    CHECK(!scene.look(wanted), "the pool has room for one");
    scene.await([&] { return scene.ready(wanted) || scene.came_round(wanted); });
    if (!scene.ready(wanted)) {
      continue;  // on a busy machine a thread seemed to be kept
    }
    CHECK(scene.is_right(wanted), "what it brings");
    scene.await([&] { return scene.told() == 1; });
    CHECK(scene.prefetch().misses() == 1 && scene.shown[1] == 1, "a miss");
    CHECK(fake_cuda::allocations() == before + 1, "memory of its own");
    scene.end(wanted);
    scene.await([&] { return fake_cuda::allocations() == before; });
    scene.carry_out(0, 3);
    CHECK(scene.prefetch().trouble().empty(), scene.prefetch().trouble());
  }
}

/// An operation that ends without its payload leaves it to be read: its room is nobody else's until then.
void test_ends_unread() {
  Scene scene({5 * kPieceBytes, 5 * kPieceBytes, 1, 1});
  {
    const fake_cuda::Held held;
    const long before = fake_cuda::copies();
    scene.start(1, 1);
    scene.await([&] { return fake_cuda::copies() == before + 2; });  // both buffers are full
    scene.end(0);
    std::int64_t told = 0;
    for (const std::int64_t wanted : {2, 3, 1}) {  // between two of them the pool gives what room it has
      scene.look(wanted);
      ++told;
      scene.await([&] { return scene.told() == told; });
    }
  }
  scene.await([&] { return scene.ready(0) && scene.ready(1); });
  CHECK(scene.is_right(0) && scene.is_right(1), "one was read into the other's room");
}

/// A call of the program holds the driver, and waits for kernels that wait for payloads: they come all the same.
void test_driver_held() {
  Scene scene({kLong, 5, kLong, 0, kPieceBytes, kLong, 5, kLong});
  {
    const fake_cuda::DriverHeld held;
    scene.start(1, 2);
    for (const std::int64_t entry : {0, 1, 2, 4}) {
      CHECK(!scene.look(entry), "nobody can bring it");
      scene.await([&] { return scene.came_round(entry); });
      CHECK(scene.is_right(entry, scene.prefetch().detours()[entry]), "what it brings");
      scene.end(entry);
    }
  }
  scene.carry_out(5, scene.count());
  scene.await([&] { return scene.told() == scene.count() - 1; });
  CHECK(scene.prefetch().hits() + scene.prefetch().stalls() + scene.prefetch().misses() == 7, "each is counted once");
}

constexpr auto kSomeTurns = std::chrono::milliseconds(50);

/// A group's room is another operation's once the one that has it is over.
void test_room_of_a_group() {
  Scene scene({kLong, kLong, 5});
  const fake_cuda::DriverHeld held;
  scene.start(1, 2);
  const auto check_only = [&](std::int64_t entry, std::int64_t other) {
    std::this_thread::sleep_for(kSomeTurns);
    CHECK(!scene.came_round(other), "the room is taken");
    CHECK(scene.is_right(entry, scene.prefetch().detours()[entry]), "who has the room keeps it");
    scene.end(entry);
    scene.await([&] { return scene.came_round(other); });
  };
  scene.look(1);
  scene.await([&] { return scene.came_round(1); });
  scene.look(0);
  check_only(1, 0);
  scene.look(2);
  check_only(0, 2);
  CHECK(scene.is_right(2, scene.prefetch().detours()[2]), "the last");
}

/// What one group's operation waits for comes whatever another one's has: that may end after it.
void test_rooms_of_groups() {
  Scene scene({kLong, kLong, 5, kLong}, 2);
  const fake_cuda::DriverHeld held;
  scene.start(1, 2);
  for (const std::int64_t entry : {1, 0}) {
    scene.look(entry);
    scene.await([&] { return scene.came_round(entry); });
  }
  for (const std::int64_t entry : {0, 1}) {
    CHECK(scene.is_right(entry, scene.prefetch().detours()[entry]), "each has its own");
  }
}

/// What has come round is not read again, or many operations that are over would take memory of their own.
void test_nothing_is_read_twice() {
  Scene scene({kLong, 8, 8, 8, 8, 8, 8, 8, kLong});
  const std::int64_t last = scene.count() - 1;
  long before = 0;
  {
    const fake_cuda::DriverHeld held;
    scene.start(1, 2);
    before = fake_cuda::allocations();
    for (std::int64_t entry = 1; entry < last; ++entry) {
      scene.look(entry);
      scene.await([&] { return scene.came_round(entry); });
      scene.end(entry);
    }
  }
  scene.carry_out(0, 1);
  scene.carry_out(last, scene.count());
  scene.await([&] { return scene.told() == scene.count(); });
  CHECK(fake_cuda::allocations() == before, "nothing had memory of its own");
  for (std::int64_t entry = 1; entry < last; ++entry) {
    CHECK(!scene.ready(entry), "nobody waits for it any more");
  }
}

void test_stop() {
  {
    Scene scene({kLong, kLong, kLong});
    scene.start(1, 3);
    scene.await([&] { return scene.ready(0); });
    scene.prefetch().stop();  // while it waits for room
    CHECK(scene.prefetch().trouble().empty() && !scene.ready(1), "nobody had made room");
  }
  Scene scene(std::vector<std::int64_t>(20, kLong));
  const long before = fake_cuda::copies();
  scene.start(50 * kLong, 3);
  scene.await([&] { return fake_cuda::copies() > before; });
  scene.prefetch().stop();  // while it reads
  const long copies = fake_cuda::copies();
  CHECK(scene.prefetch().trouble().empty(), scene.prefetch().trouble());
  for (std::int64_t entry = 0; entry < scene.count(); ++entry) {
    CHECK(!scene.ready(entry) || scene.is_right(entry), "what was told to be there is");
  }
  scene.stop();
  CHECK(fake_cuda::copies() == copies, "nothing goes on");
}

void expect_trouble(Scene& scene, const std::string& text, int device = 0) {
  scene.start(10 * kLong, 3, device);
  until([&] { return !scene.prefetch().trouble().empty(); });
  CHECK(scene.prefetch().trouble().find(text) != std::string::npos, scene.prefetch().trouble());
  CHECK(!scene.ready(2), "what could not be read is not there");
}

void test_trouble() {
  Scene shortened({5, 5, kLong});
  std::filesystem::resize_file(shortened.path(), 20 + 2 * kLong - 1);
  expect_trouble(shortened, shortened.path().string() + " ends too early");

  Scene missing({5, 5, kLong});
  std::filesystem::remove(missing.path());
  expect_trouble(missing, "cannot open payload " + missing.path().string() + ": No such file");

  Scene nowhere({5, 5, kLong});
  expect_trouble(nowhere, "invalid device", fake_cuda::kDevices);
}

void test_nothing() {
  Scene scene({0, 0});
  scene.start(1024, 4);
  CHECK(scene.ready(0) && scene.ready(1) && scene.prefetch().pool_bytes() == 0, "nobody brings anything");
}

}  // namespace

void test_prefetch() {
  test_in_order();
  test_least_pool();
  test_counts();
  test_wanted_before_begun();
  test_ends_unread();
  test_driver_held();
  test_room_of_a_group();
  test_rooms_of_groups();
  test_nothing_is_read_twice();
  test_stop();
  test_trouble();
  test_nothing();
}

}  // namespace pruned::device::testing
