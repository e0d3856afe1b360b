#include "checks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "../tests/contributions.h"
#include "session.h"

namespace pruned::device::on_device {
namespace {

using testing::Act;
using testing::Bytes;

constexpr Dtype kTypes[] = {Dtype::kFloat32, Dtype::kBfloat16, Dtype::kFloat16, Dtype::kFloat64, Dtype::kInt32,
                            Dtype::kUint32,  Dtype::kInt64,    Dtype::kUint64,  Dtype::kInt8,    Dtype::kUint8};
constexpr Reduce kReductions[] = {Reduce::kSum, Reduce::kAvg, Reduce::kProduct, Reduce::kMin, Reduce::kMax};
constexpr Kind kKinds[] = {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather, Kind::kBroadcast, Kind::kReduce};

/// All kinds, types and reductions, small ones that go in lines and larger ones that do not, and one of many chunks.
std::vector<Op> operations(int size, Mode mode) {
  std::vector<Op> ops;
  int turn = 0;
  for (const Kind kind : kKinds) {
    for (const Dtype dtype : kTypes) {
      if ((mode == Mode::kPrefolded || mode == Mode::kReplicas) && is_float(dtype)) {
        continue;  // folded in another order than the ring's
      }
      const std::int64_t count = turn % 3 == 0 ? 5 : turn % 3 == 1 ? 20'001 : 60'000;
      ops.push_back({.kind = kind,
                     .dtype = dtype,
                     .reduce = reduces(kind) ? kReductions[turn % 5] : Reduce::kNone,
                     .root = is_chain(kind) ? turn % size : -1,
                     .size = size,
                     .count = kind == Kind::kReduceScatter ? count * size : count});
      ++turn;
    }
  }
  if (mode == Mode::kExact || mode == Mode::kLeft) {
    ops.push_back({.kind = Kind::kAllReduce,
                   .dtype = Dtype::kFloat16,
                   .reduce = Reduce::kAvg,
                   .size = size,
                   .count = 60'000});
  }
  ops.push_back({.kind = Kind::kAllReduce,
                 .dtype = mode == Mode::kExact || mode == Mode::kLeft ? Dtype::kFloat32 : Dtype::kInt32,
                 .reduce = Reduce::kSum,
                 .size = size,
                 .count = 1'300'001 * size});
  return ops;
}

prism_device_op planned(Session& session, const Act& act, int place) {
  const testing::Brought& brought = act.brought[static_cast<std::size_t>(place)];
  const bool total = act.mode != Mode::kReplicas && (!reduces(act.op.kind) || act.mode == Mode::kExact);
  prism_device_op op{};
  op.kind = static_cast<int>(act.op.kind);
  op.dtype = static_cast<int>(act.op.dtype);
  op.reduce = static_cast<int>(act.op.reduce);
  op.root = act.op.root;
  op.count = act.op.count;
  op.head = session.part(brought.has_head ? &brought.head : nullptr);
  op.tail = session.part(brought.has_tail ? &brought.tail : nullptr);
  op.final = session.part(total && brought.has_final ? &brought.final : nullptr);
  return op;
}

/// The output that the member gets on the device.
Bytes run(Session& session, const Act& act, int rank, int place) {
  const Bytes& input = act.inputs[static_cast<std::size_t>(rank)];
  const Bytes& expected = act.outputs[static_cast<std::size_t>(place)];
  const DeviceMemory from = device_memory(static_cast<std::int64_t>(std::max<std::size_t>(input.size(), 16)));
  const DeviceMemory to = device_memory(static_cast<std::int64_t>(std::max(expected.size(), input.size()) + 16));
  for (const DeviceMemory* memory : {&from, &to}) {  // who is not a broadcast's root has what its output holds
    PRUNED_CUDA(cudaMemcpy(memory->get(), input.data(), input.size(), cudaMemcpyDefault));
  }
  Work work{.kind = act.op.kind,
            .dtype = act.op.dtype,
            .reduce = act.op.reduce,
            .root = act.op.root,
            .count = act.op.kind == Kind::kReduceScatter ? act.op.count / act.op.size : act.op.count,
            .input = from.get(),
            .output = to.get()};
  if (session.group().launch(work, nullptr) != Verdict::kFine) {
    throw Failure(session.group().text());
  }
  session.finish();
  Bytes output(expected.size());
  PRUNED_CUDA(cudaMemcpy(output.data(), to.get(), output.size(), cudaMemcpyDefault));
  return output;
}

int check_member(const std::string& directory, int size, const std::vector<int>& sandbox, int place, Mode mode,
                 int channels) {
  const int rank = sandbox[static_cast<std::size_t>(place)];
  std::vector<Act> acts;
  for (const Op& op : operations(size, mode)) {
    acts.push_back(testing::act_of(op, sandbox, mode, Sizes{}, 3));
  }
  Session session(directory, size, rank, sandbox, static_cast<int>(mode), 8 << 20, channels);
  for (const Act& act : acts) {
    session.plan(planned(session, act, place));
  }
  session.start();
  int wrong = 0;
  for (const Act& act : acts) {
    const Bytes output = run(session, act, rank, place);
    if (output != act.outputs[static_cast<std::size_t>(place)]) {
      ++wrong;
      std::printf("differs: %s, mode %d, member %d\n", pruned::testing::describe(act.op, sandbox).c_str(),
                  static_cast<int>(mode), rank);
    }
  }
  prism_device_figures figures;
  expect(prism_device_measure(&figures));
  std::printf("N %d, member %d, mode %d, channels %d: %zu operations, %d differ; hits %ld, misses %ld, stalls %ld\n",
              size, rank, static_cast<int>(mode), channels, acts.size(), wrong, static_cast<long>(figures.hits),
              static_cast<long>(figures.misses), static_cast<long>(figures.stalls));
  std::fflush(stdout);
  return wrong;
}

}  // namespace

bool check_single(int mode, int wanted) {
  int wrong = 0;
  for (const int size : wanted > 0 ? std::vector<int>{wanted} : std::vector<int>{2, 3, 8}) {
    const pruned::testing::TemporaryDirectory directory;
    wrong += check_member(directory.path(), size, {size / 2}, 0, static_cast<Mode>(mode), size == 3 ? 2 : 0);
  }
  return wrong == 0;
}

bool check_pair() {
  bool equal = true;
  for (const Mode mode : {Mode::kExact, Mode::kLeft}) {
    const pruned::testing::TemporaryDirectory directory;
    std::vector<pid_t> children;
    for (int place = 0; place < 2; ++place) {
      std::fflush(stdout);
      const pid_t child = fork();
      if (child == 0) {
        int wrong = 1;
        try {
          wrong = check_member(directory.path(), 5, {1, 3}, place, mode, 0);
        } catch (const std::exception& error) {
          std::printf("member %d: %s\n", place, error.what());
        }
        std::fflush(stdout);
        _exit(wrong == 0 ? 0 : 1);
      }
      children.push_back(child);
    }
    for (const pid_t child : children) {
      int status = 1;
      waitpid(child, &status, 0);
      equal = equal && status == 0;
    }
  }
  return equal;
}

}  // namespace pruned::device::on_device
