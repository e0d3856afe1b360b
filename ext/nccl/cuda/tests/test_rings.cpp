// Collectives along rings and chains, by the code that runs on devices: each sandbox member gets, bit for bit, what a
// ring of N real ranks gives it, and moves as many bytes.

#include "../../tests/check.h"
#include "../plan.h"
#include "contributions.h"
#include "stage.h"
#include "tests.h"

namespace pruned::device::testing {
namespace {

using pruned::testing::describe;
using pruned::testing::kSmall;

/// A kind, with a root that is chosen by `turn` among sandbox and virtual members.
Op op_of(Kind kind, int size, std::int64_t count, Dtype dtype, Reduce reduce, int turn) {
  const bool blocks = kind == Kind::kReduceScatter;
  return {.kind = kind,
          .dtype = dtype,
          .reduce = reduces(kind) ? reduce : Reduce::kNone,
          .root = is_chain(kind) ? turn % size : -1,
          .size = size,
          .count = blocks ? count * size : count};
}

void check(Stage& stage, const Op& op, Mode mode, int channels, bool lines, int groups = 1) {
  Act act = act_of(op, stage.sandbox(), mode, kSmall, 7);
  act.channels = channels;
  act.groups = groups;
  act.lines = lines;
  const std::vector<Bytes> expected = act.outputs;
  for (Bytes& output : act.outputs) {
    output.assign(output.size(), std::byte{0x5A});
  }
  stage.run(act);
  for (std::size_t place = 0; place < expected.size(); ++place) {
    CHECK(act.outputs[place] == expected[place], describe(op, stage.sandbox()) + ", mode " +
                                                     std::to_string(static_cast<int>(mode)) + ", channels " +
                                                     std::to_string(channels) + " in " + std::to_string(groups) +
                                                     (lines ? ", in lines" : "") +
                                                     ", member " + std::to_string(stage.sandbox()[place]));
  }
}

constexpr Dtype kTypes[] = {Dtype::kFloat32, Dtype::kBfloat16, Dtype::kFloat16, Dtype::kFloat64, Dtype::kInt32,
                            Dtype::kUint32,  Dtype::kInt64,    Dtype::kUint64,  Dtype::kInt8,    Dtype::kUint8};
constexpr Reduce kReductions[] = {Reduce::kSum, Reduce::kAvg, Reduce::kProduct, Reduce::kMin, Reduce::kMax};
constexpr Kind kKinds[] = {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather, Kind::kBroadcast, Kind::kReduce};

/// Around one sandbox member. Many equal inputs are combined at once, so only where the order is of no account.
void check_replicas() {
  int turn = 0;
  for (int size = 2; size <= 9; ++size) {
    Stage stage(size, {size / 2}, kSmall);
    for (const Kind kind : kKinds) {
      for (const Dtype dtype : {Dtype::kInt32, Dtype::kUint8, Dtype::kInt64}) {
        for (const Reduce reduce : {Reduce::kSum, Reduce::kAvg, Reduce::kProduct, Reduce::kMax}) {
          check(stage, op_of(kind, size, 70, dtype, reduce, turn), Mode::kReplicas, 1 + turn % 2, turn % 3 == 0);
          ++turn;
        }
      }
    }
  }
}

/// Channels that do different loops: as many as there are, fewer, and more.
void check_groups() {
  int turn = 0;
  for (const std::vector<int>& sandbox : {std::vector{2}, std::vector{0, 1}, std::vector{1, 4}}) {
    Stage stage(5, sandbox, kSmall);
    for (const Kind kind : kKinds) {
      for (const Mode mode : {Mode::kExact, Mode::kLeft}) {
        for (const int groups : {2, 3, 5}) {
          for (const int parts : {1, 2}) {
            const Op op = op_of(kind, 5, 16 * 5 * 3 + turn, Dtype::kFloat32, Reduce::kSum, turn);
            check(stage, op, mode, groups * parts, turn % 2 == 1, groups);
            ++turn;
          }
        }
      }
    }
  }
}

/// What is small goes in lines: chunks of up to 16 KiB, whatever the operation.
void check_lines() {
  for (const Kind kind : kKinds) {
    for (const std::int64_t bytes : {1, 4'096, 16'384, 16'400, 1 << 20}) {
      const std::int64_t count = kind == Kind::kAllReduce || kind == Kind::kReduceScatter ? bytes * 4 : bytes;
      const Planned planned{.kind = static_cast<std::int32_t>(kind), .dtype = static_cast<std::int32_t>(Dtype::kUint8),
                            .reduce = 0, .root = 0, .count = count, .op = -1, .entry = 0, .latency = 0, .transfer = 0};
      CHECK(shape_of(planned, 4, Mode::kLeft, {}).lines == (bytes <= 16'384),
            "kind " + std::to_string(static_cast<int>(kind)) + ", chunks of " + std::to_string(bytes) + " bytes");
    }
  }
}

/// Ranks that share a device share its multiprocessors: together they take no more than one alone does.
void check_widths() {
  const Planned planned{.kind = static_cast<std::int32_t>(Kind::kAllReduce), .dtype = static_cast<std::int32_t>(Dtype::kFloat32),
                        .reduce = 0, .root = -1, .count = 25 << 20, .op = -1, .entry = 0, .latency = 0, .transfer = 0};
  for (const int sharing : {0, 1, 2, 3, 8, 100}) {
    const int channels = shape_of(planned, 4, Mode::kExact, width_for(0, sharing)).channels;
    CHECK(channels >= 1 && channels <= std::max(kMaxChannels / std::max(sharing, 1), 1),
          std::to_string(sharing) + " ranks have " + std::to_string(channels) + " channels each");
  }
  CHECK(shape_of(planned, 4, Mode::kExact, width_for(5, 8)).channels == 5, "who wants some has them");
}

}  // namespace

void test_rings() {
  check_lines();
  check_widths();
  int turn = 0;
  for (int size = 2; size <= 9; ++size) {
    for (const std::vector<int>& sandbox : pruned::testing::sandboxes(size)) {
      Stage stage(size, sandbox, kSmall);
      for (const Kind kind : kKinds) {
        for (const Mode mode : {Mode::kExact, Mode::kLeft, Mode::kPrefolded}) {
          const Dtype dtype = mode == Mode::kPrefolded ? Dtype::kInt32 : kTypes[turn % 10];
          const std::int64_t count = turn % 3 == 0 ? size - 1 : 2 * 16 * size + 3;
          check(stage, op_of(kind, size, count, dtype, kReductions[turn / 10 % 5], turn), mode, 1 + turn % 3,
                turn % 2 == 1);
          ++turn;
        }
      }
    }
  }
  check_replicas();
  check_groups();
  for (const Dtype dtype : kTypes) {
    Stage stage(7, {1, 4}, kSmall);
    for (const Reduce reduce : kReductions) {
      for (const bool lines : {false, true}) {
        check(stage, op_of(Kind::kAllReduce, 7, 500, dtype, reduce, 0), Mode::kExact, 2, lines);
        check(stage, op_of(Kind::kReduceScatter, 7, 96, dtype, reduce, 0), Mode::kExact, 2, lines);
      }
    }
  }
}

}  // namespace pruned::device::testing
