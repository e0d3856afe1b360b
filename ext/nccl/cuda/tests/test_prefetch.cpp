// Payloads read ahead by several threads, over a CUDA of threads: who looks finds all bytes, or a reason.

#include <thread>

#include "fake_cuda/fake_cuda.h"
#include "payload_scene.h"
#include "tests.h"

namespace pruned::device::testing {
namespace {

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
  test_stop();
  test_trouble();
  test_nothing();
}

}  // namespace pruned::device::testing
