// Sandbox members: every chunk that they send, and what they keep, is that of a ring of N real ranks.

#include "check.h"
#include "harness.h"
#include "tests.h"

namespace pruned::testing {
namespace {

/// The sends of a rank that reach its right neighbour in this operation.
void check_member(const Group& group, const Op& op, const Run& run, const std::vector<Bytes>& inputs, int rank,
                  bool in_place) {
  Ports ports = group.ports(Party::Role::kMember, rank);
  const Party left = ports.left_of(rank), right = ports.right_of(rank);
  Neighbours neighbours(group, op, left, ports.self(), right);

  const bool takes = op.kind != Kind::kBroadcast || rank != op.root;
  const Bytes expected = takes ? run.outputs[rank] : Bytes{};
  Bytes output(expected.size());
  Bytes input = inputs[rank];
  Buffers buffers{.input = input.data(), .output = output.empty() ? nullptr : output.data()};
  std::byte* result = output.data();
  if (in_place && op.kind == Kind::kAllGather) {
    const std::int64_t own = op.received_blocks()[rank].first * static_cast<std::int64_t>(op.item());
    std::copy(input.begin(), input.end(), output.begin() + own);
    buffers.input = output.data() + own;
  } else if (in_place) {
    result = input.data();
    if (op.kind == Kind::kReduceScatter) {
      result += op.sent_blocks()[rank].first * static_cast<std::int64_t>(op.item());
    }
    buffers.output = output.empty() ? nullptr : result;
  }

  RingMember member(op, group.sizes, rank, buffers, ports.from(left), ports.to(right));
  const int neighbour = (rank + op.size - 1) % op.size;
  const bool receives =
      op.kind == Kind::kBroadcast ? rank != op.root : op.kind != Kind::kReduce || rank != (op.root + 1) % op.size;
  const std::vector<Bytes> given = receives && op.size > 1 ? run.sent[neighbour] : std::vector<Bytes>{};
  const std::vector<Bytes>& sent = run.sent[rank];
  const std::string what =
      describe(op, group.sandbox) + ", rank " + std::to_string(rank) + (in_place ? ", in place" : "");
  CHECK(neighbours.run(member, given, sent) == sent, what + ": sends");
  CHECK(expected.empty() || Bytes(result, result + expected.size()) == expected, what + ": output");
  std::int64_t bytes = 0;
  for (const Bytes& chunk : sent) {
    bytes += static_cast<std::int64_t>(chunk.size());
  }
  CHECK(member.moved().sends == std::ssize(sent) && member.moved().sent_bytes == bytes, what + ": what it moved");
  CHECK(member.moved().receives == std::ssize(given), what + ": what it received");
}

void check_op(const Op& op, const std::vector<int>& sandbox) {
  const TemporaryDirectory directory;
  const Group group{.directory = std::make_shared<Directory>(directory.path()), .size = op.size, .sandbox = sandbox};
  const std::vector<Bytes> inputs = random_inputs(op, 5);
  const Run run = run_naively(op, group.sizes, inputs);
  for (const int rank : sandbox) {
    check_member(group, op, run, inputs, rank, false);
    check_member(group, op, run, inputs, rank, true);
  }
}

}  // namespace

void test_members() {
  for (int size = 1; size <= 16; ++size) {
    const std::vector<int> sandbox = size < 3 ? std::vector{0} : std::vector{1, size - 1};
    for (const std::int64_t count : {0, 1, size - 1, 5 * size + 3, 16 * size, 3 * 16 * size + 7}) {
      const Op sum{
          .kind = Kind::kAllReduce, .dtype = Dtype::kFloat32, .reduce = Reduce::kSum, .size = size, .count = count};
      check_op(sum, sandbox);
      Op reduce = sum;
      reduce.kind = Kind::kReduce;
      reduce.root = size / 2;
      check_op(reduce, sandbox);
      Op broadcast = reduce;
      broadcast.kind = Kind::kBroadcast;
      check_op(broadcast, sandbox);
      Op scatter = sum;
      scatter.kind = Kind::kReduceScatter;
      scatter.count = count * size;
      check_op(scatter, sandbox);
      Op gather = sum;
      gather.kind = Kind::kAllGather;
      check_op(gather, sandbox);
    }
  }
  for (const Dtype dtype :
       {Dtype::kFloat64, Dtype::kFloat16, Dtype::kBfloat16, Dtype::kInt8, Dtype::kUint64, Dtype::kBool}) {
    for (const Reduce reduce : {Reduce::kSum, Reduce::kProduct, Reduce::kMax, Reduce::kAvg}) {
      if (dtype != Dtype::kBool || reduce != Reduce::kAvg) {
        Op op{.kind = Kind::kAllReduce, .dtype = dtype, .reduce = reduce, .size = 5, .count = 203};
        check_op(op, {0, 1, 3});
        op.kind = Kind::kReduceScatter;
        op.sends = {7, 0, 50, 1, 33};
        op.count = 91;
        check_op(op, {0, 1, 3});
      }
    }
  }
  Op uneven{.kind = Kind::kAllGather, .dtype = Dtype::kComplex64, .size = 5, .count = 3, .receives = {3, 40, 0, 1, 9}};
  check_op(uneven, {0, 1, 4});
}

}  // namespace pruned::testing
