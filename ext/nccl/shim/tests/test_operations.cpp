// What calls on communicators of ours come to at the engine.

#include <thread>

#include "nccl.h"

namespace pruned::shim::testing {
namespace {

constexpr int kFloat = 7;
constexpr int kBfloat16 = 9;
constexpr int kSum = 0;
constexpr int kAvg = 4;

/// Those of them that the engine told.
std::vector<std::string> launches() {
  std::vector<std::string> lines = told();
  std::erase_if(lines, [](const std::string& line) { return !line.starts_with("engine"); });
  return lines;
}

void test_collectives() {
  const Comm comm = ours('A');
  nccl("ncclAllReduce", 100, 200, 10, kFloat, kAvg, comm, 9);
  nccl("ncclReduceScatter", 100, 200, 10, kBfloat16, kSum, comm, 9);
  nccl("ncclAllGather", 100, 200, 10, kBfloat16, comm, 9);
  nccl("ncclReduce", 100, 200, 10, kFloat, 1, 3, comm, 9);
  nccl("ncclBroadcast", 100, 200, 10, kFloat, 2, comm, 9);
  nccl("ncclBcast", 100, 10, kFloat, 2, comm, 9);
  same(told(), {
                   "engine 65 kind 0 dtype 8 reduce 2 root -1 count 10 100>200 scale 0 stream 9",
                   "engine 65 kind 1 dtype 7 reduce 1 root -1 count 10 100>200 scale 0 stream 9",
                   "engine 65 kind 2 dtype 7 reduce 0 root -1 count 10 100>200 scale 0 stream 9",
                   "engine 65 kind 4 dtype 8 reduce 3 root 3 count 10 100>200 scale 0 stream 9",
                   "engine 65 kind 3 dtype 8 reduce 0 root 2 count 10 100>200 scale 0 stream 9",
                   "engine 65 kind 3 dtype 8 reduce 0 root 2 count 10 100>100 scale 0 stream 9",
               });
  equal(nccl("ncclAllReduce", 100, 200, 10, 12, kSum, comm, 9), kInvalidArgument);
  equal(nccl("ncclAllReduce", 100, 200, 10, kFloat, 5, comm, 9), kInvalidArgument);
  same(told(), {});
}

void test_messages() {
  const Comm comm = ours('B');
  nccl("ncclSend", 1000, 5, kFloat, 2, comm, 9);
  nccl("ncclRecv", 2000, 5, kBfloat16, 3, comm, 9);
  same(told(), {"engine 66 messages to 2:1000+20 stream 9", "engine 66 messages from 3:2000+10 stream 9"});
  nccl("ncclAlltoAll", 1000, 2000, 2, kFloat, comm, 9);
  nccl("ncclGather", 1000, 2000, 2, kFloat, 1, comm, 9);
  nccl("ncclGather", 1000, 2000, 2, kFloat, 0, comm, 9);
  nccl("ncclScatter", 1000, 2000, 2, kFloat, 0, comm, 9);
  same(told(), {
                   "engine 66 messages to 0:1000+8 from 0:2000+8 to 1:1008+8 from 1:2008+8 to 2:1016+8 from 2:2016+8 "
                   "to 3:1024+8 from 3:2024+8 stream 9",
                   "engine 66 messages to 1:1000+8 from 0:2000+8 from 1:2008+8 from 2:2016+8 from 3:2024+8 stream 9",
                   "engine 66 messages to 0:1000+8 stream 9",
                   "engine 66 messages from 0:2000+8 stream 9",
               });
  equal(nccl("ncclSend", 1000, 5, kFloat, 4, comm, 9), kInvalidArgument);
  equal(nccl("ncclRecv", 1000, 5, kFloat, -1, comm, 9), kInvalidArgument);
  same(told(), {});
}

void test_groups() {
  const Comm one = ours('C');
  const Comm other = ours('D');
  nccl("ncclGroupStart");
  nccl("ncclSend", 1000, 5, kFloat, 2, one, 9);
  nccl("ncclGroupStart");
  nccl("ncclRecv", 2000, 1, kFloat, 0, other, 9);
  nccl("ncclRecv", 3000, 5, kFloat, 2, one, 9);
  nccl("ncclGroupEnd");
  nccl("ncclAllReduce", 100, 200, 10, kFloat, kSum, one, 9);
  nccl("ncclSend", 4000, 5, kFloat, 2, one, 9);
  nccl("ncclSend", 5000, 5, kFloat, 2, one, 8);
  same(launches(), {});
  std::thread([&] { nccl("ncclSend", 6000, 5, kFloat, 3, one, 9); }).join();  // groups are each thread's own
  same(told(), {"engine 67 messages to 3:6000+20 stream 9"});
  nccl("ncclGroupEnd");
  same(launches(), {
                       "engine 67 messages to 2:1000+20 from 2:3000+20 stream 9",
                       "engine 67 kind 0 dtype 8 reduce 1 root -1 count 10 100>200 scale 0 stream 9",
                       "engine 67 messages to 2:4000+20 stream 9",
                       "engine 68 messages from 0:2000+4 stream 9",
                       "engine 67 messages to 2:5000+20 stream 8",
                   });
}

void test_groups_that_are_dropped() {
  const Comm comm = ours('E');
  nccl("ncclGroupStart");
  nccl("ncclSend", 1000, 5, kFloat, 2, comm, 9);
  nccl("ncclGroupSimulateEnd", 1);
  nccl("ncclGroupStart");
  equal(nccl("ncclSend", 1000, 5, kFloat, 9, comm, 9), kInvalidArgument);
  nccl("ncclRecv", 1000, 5, kFloat, 2, comm, 9);
  nccl("ncclGroupEnd");
  same(launches(), {"engine 69 messages from 2:1000+20 stream 9"});
}

void test_factors() {
  const Comm comm = ours('F');
  float factor = 0.25F;
  int mine = 0;
  int on_device = 0;
  equal(nccl("ncclRedOpCreatePreMulSum", &mine, &factor, kFloat, 1, comm), kSuccess);
  equal(nccl("ncclRedOpCreatePreMulSum", &on_device, 4000, kBfloat16, 0, comm), kSuccess);
  CHECK(mine >= 5 && on_device >= 5 && mine != on_device, "numbers of reductions");
  nccl("ncclGroupStart");
  nccl("ncclAllReduce", 100, 200, 10, kFloat, mine, comm, 9);
  factor = 7;
  equal(nccl("ncclRedOpDestroy", mine, comm), kSuccess);  // what a group has taken is not touched by it
  nccl("ncclGroupEnd");
  nccl("ncclAllReduce", 100, 200, 10, kBfloat16, on_device, comm, 9);
  same(launches(), {
                       "engine 70 kind 0 dtype 8 reduce 1 root -1 count 10 100>200 scale 0.25 stream 9",
                       "engine 70 kind 0 dtype 7 reduce 1 root -1 count 10 100>200 scale 0 on device stream 9",
                   });
  equal(nccl("ncclAllReduce", 100, 200, 10, kFloat, mine, comm, 9), kInvalidArgument);
  equal(nccl("ncclAllReduce", 100, 200, 10, kFloat, on_device, comm, 9), kInvalidArgument);
  equal(nccl("ncclRedOpDestroy", mine, comm), kInvalidArgument);
  equal(nccl("ncclRedOpCreatePreMulSum", &mine, &factor, 2, 1, comm), kInvalidArgument);
}

}  // namespace

void test_operations() {
  call<void(bool)>("fake_engine_runs", true);
  test_collectives();
  test_messages();
  test_groups();
  test_groups_that_are_dropped();
  test_factors();
}

}  // namespace pruned::shim::testing
