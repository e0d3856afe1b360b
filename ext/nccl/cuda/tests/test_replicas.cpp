// With replicas the virtual members bring what the sandbox member has before an operation, by the whole engine.

#include <algorithm>
#include <chrono>
#include <thread>

#include "../../tests/check.h"
#include "fake_cuda/fake_cuda.h"
#include "sandbox_engine.h"
#include "tests.h"

namespace pruned::device::testing {
namespace {

/// Of `count` elements for each member. Integers: many equal inputs are combined at once, so only where the order is of
/// no account.
std::vector<Op> operations(int size, std::int64_t count) {
  std::vector<Op> all;
  for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather}) {
    all.push_back({.kind = kind, .dtype = Dtype::kInt32, .reduce = reduces(kind) ? Reduce::kSum : Reduce::kNone,
                   .size = size, .count = count * size});
  }
  for (int root = 0; root < size; ++root) {
    for (const Kind kind : {Kind::kBroadcast, Kind::kReduce}) {
      all.push_back({.kind = kind, .dtype = Dtype::kInt32, .reduce = reduces(kind) ? Reduce::kSum : Reduce::kNone,
                     .root = root, .size = size, .count = count});
    }
  }
  return all;
}

/// The member's data are written by what is on the stream before the operation, as a program's kernels do; that takes
/// longer than to launch the arc elsewhere.
void check(const Casting& casting, std::int64_t count) {
  SandboxEngine engine(casting);
  const std::vector<Op> ops = operations(casting.size, count);
  for (const Op& op : ops) {
    engine.plan(op);
  }
  engine.start();
  for (const Op& op : ops) {
    const Act act = act_of(op, casting.sandbox, Mode::kReplicas, Sizes{}, 5);
    const Bytes& own = act.inputs[casting.rank];
    const Bytes& expected = op.kind == Kind::kBroadcast ? own : act.outputs[0];
    Bytes input(own.size()), output(expected.size());
    const bool in_place = op.kind == Kind::kBroadcast;  // where the root alone needs an input
    fake_cuda::launch(engine.stream(), [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(casting.arc_device < 0 ? 0 : 5));
      std::ranges::copy(own, (in_place ? output : input).begin());
    });
    std::byte* given = !in_place ? input.data() : casting.rank == op.root ? output.data() : nullptr;
    CHECK(engine.launch(op, given, output.data()) == Verdict::kFine, "it is launched");
    engine.finish();
    CHECK(output == expected, pruned::testing::describe(op, casting.sandbox) + ", root " +
                                          std::to_string(op.root) + ", arc's device " +
                                          std::to_string(casting.arc_device));
  }
}

/// Torch broadcasts an all_gather of uneven blocks one by one; what is in a block's place before is nobody's.
void check_uneven() {
  const pruned::testing::TemporaryDirectory folder;
  SandboxEngine engine({.directory = folder.path(), .size = 3, .rank = 1, .sandbox = {1}, .mode = Mode::kReplicas});
  Op block{.kind = Kind::kBroadcast, .dtype = Dtype::kUint8, .size = 3, .count = 50};
  for (block.root = 0; block.root < 3; ++block.root) {
    engine.plan(block, true);
  }
  engine.start();
  for (block.root = 0; block.root < 3; ++block.root) {
    Bytes tensor(50, std::byte{7});
    engine.launch(block, tensor.data(), tensor.data());
    engine.finish();
    CHECK(tensor == Bytes(50, std::byte(block.root == 1 ? 7 : 0)), "block " + std::to_string(block.root));
  }
}

}  // namespace

void test_replicas() {
  struct Way {
    int arc_device;
    std::int64_t count;
  };
  for (const int size : {2, 3, 5}) {
    for (const Way way : {Way{-1, 100}, Way{-1, 10'000}, Way{1, 100}}) {  // in lines, in slots, and elsewhere
      const pruned::testing::TemporaryDirectory folder;
      check({.directory = folder.path(), .size = size, .rank = size / 2, .sandbox = {size / 2},
             .mode = Mode::kReplicas, .arc_device = way.arc_device},
            way.count);
    }
  }
  check_uneven();
}

}  // namespace pruned::device::testing
