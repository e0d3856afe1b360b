// A kernel that waits for a payload while the program holds the driver until the device is idle: it ends, with its bits.

#include "../../tests/check.h"
#include "fake_cuda/fake_cuda.h"
#include "sandbox_engine.h"
#include "tests.h"

namespace pruned::device::testing {
namespace {

constexpr std::int64_t kCount = 3000;
constexpr int kTurns = 3;

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

}  // namespace

void test_detour() {
  for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather, Kind::kBroadcast}) {
    check(kind, Mode::kExact);
    check(kind, Mode::kLeft);
  }
}

}  // namespace pruned::device::testing
