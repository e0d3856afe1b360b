// Payloads that kernels wait for while the program holds the driver until the device is idle: they come, and whoever
// waits ends with its bits.

#include <chrono>
#include <thread>

#include "fake_cuda/fake_cuda.h"
#include "payload_scene.h"
#include "sandbox_engine.h"
#include "tests.h"

namespace pruned::device::testing {
namespace {

constexpr std::int64_t kCount = 3000;
constexpr int kTurns = 3;

/// Operations are launched, and waited for, by who holds it.
void check(Kind kind, Mode mode) {
  const pruned::testing::TemporaryDirectory folder;
  const Op op{.kind = kind,
              .dtype = Dtype::kFloat32,
              .reduce = reduces(kind) ? Reduce::kSum : Reduce::kNone,
              .root = is_chain(kind) ? 2 : -1,
              .size = 4,
              .count = kCount * (kind == Kind::kReduceScatter ? 4 : 1)};
  SandboxEngine engine({.directory = folder.path(), .size = 4, .rank = 1, .sandbox = {1}, .mode = mode});
  std::vector<Act> acts;
  for (int turn = 0; turn < kTurns; ++turn) {
    acts.push_back(act_of(op, {1}, mode, Sizes{}, turn));
    engine.plan(op, acts.back().brought[0]);
  }
  std::vector<Bytes> outputs;
  {
    const fake_cuda::DriverHeld held;  // by this thread, from before anything was read
    engine.start();
    for (Act& act : acts) {
      outputs.emplace_back(act.outputs[0].size());
      CHECK(engine.launch(op, act.inputs[1].data(), outputs.back().data()) == Verdict::kFine, "it is launched");
    }
    engine.finish();
  }
  CHECK(engine.state().kind == Verdict::kFine, engine.state().text);
  for (int turn = 0; turn < kTurns; ++turn) {
    CHECK(outputs[turn] == acts[turn].outputs[0], pruned::testing::describe(op, {1}) + ", turn " + std::to_string(turn));
  }
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

}  // namespace

void test_detour() {
  for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather, Kind::kBroadcast}) {
    check(kind, Mode::kExact);
    check(kind, Mode::kLeft);
  }
  test_driver_held();
  test_room_of_a_group();
  test_rooms_of_groups();
  test_nothing_is_read_twice();
}

}  // namespace pruned::device::testing
