// Communicators of ours: how they begin, what they say, how they go wrong and how they end.

#include <cstring>

#include "nccl.h"

namespace pruned::shim::testing {
namespace {

constexpr int kMismatch = 1;
constexpr int kAborted = 2;

void engine_answers(int verdict) { call<void(int)>("fake_engine_answers", verdict); }

std::string last_error(Comm comm) { return call<const char*(Comm)>("ncclGetLastError", comm); }

long number(const char* name, Comm comm) {
  int value = -1;
  equal(nccl(name, comm, &value), kSuccess);
  return value;
}

void test_beginnings() {
  Comm comm = nullptr;
  engine_knows(id('a'), 4, 2);
  Config config{sizeof(Config), 0xcafebeef, 22809, 0};
  equal(call<int(Comm*, int, UniqueId, int, Config*)>("ncclCommInitRankConfig", &comm, 4, id('a'), 2, &config),
        kInProgress);
  equal(number("ncclCommGetAsyncError", comm), kSuccess);
  equal(number("ncclCommCount", comm), 4);
  equal(number("ncclCommUserRank", comm), 2);
  equal(number("ncclCommCuDevice", comm), 3);
  UniqueId ids[2] = {id('z'), id('a')};
  equal(nccl("ncclCommInitRankScalable", &comm, 4, 2, 2, ids, nullptr), kSuccess);
  same(told(), {});
  equal(call<int(Comm*, int, UniqueId, int)>("ncclCommInitRank", &comm, 5, id('a'), 2), kInternalError);
  equal(last_error(nullptr) == "this id was said to mean another communicator", 1);
}

void test_children() {
  const Comm parent = ours('b');
  UniqueId split{};
  UniqueId other{};
  call<void(const void*, int, void*)>("prism_device_split_id", id('b').bytes, 77, split.bytes);
  call<void(const void*, int, void*)>("prism_device_split_id", id('b').bytes, 78, other.bytes);
  CHECK(std::memcmp(split.bytes, other.bytes, sizeof split.bytes) != 0, "two colours have one id");
  engine_knows(split, 2, 1);
  Comm child = parent;
  equal(nccl("ncclCommSplit", parent, 77, 5, &child, nullptr), kSuccess);
  equal(number("ncclCommCount", child), 2);
  equal(nccl("ncclCommSplit", parent, 78, 5, &child, nullptr), kInvalidUsage);
  CHECK(last_error(nullptr).find("new_group") != std::string::npos, last_error(nullptr));
  equal(nccl("ncclCommSplit", parent, -1, 5, &child, nullptr), kSuccess);
  CHECK(child == nullptr, "a member without a colour gets no communicator");

  UniqueId shrunk{};
  const int gone[2] = {3, 0};
  const int sorted[2] = {0, 3};
  call<void(const void*, const int*, int, void*)>("prism_device_shrink_id", id('b').bytes, sorted, 2, shrunk.bytes);
  engine_knows(shrunk, 2, 0);
  Config config{sizeof(Config), 0xcafebeef, 22809, 0};
  equal(nccl("ncclCommShrink", parent, gone, 2, &child, &config, 0), kInProgress);
  equal(number("ncclCommUserRank", child), 0);
  equal(nccl("ncclCommGrow", parent, 9, nullptr, 1, &child, nullptr), kInvalidUsage);
  equal(nccl("ncclCommGetUniqueId", parent, &split), kInvalidUsage);
}

void test_memory() {
  const Comm comm = ours('c');
  void* handle = nullptr;
  std::uint64_t bytes = 1;
  equal(nccl("ncclCommRegister", comm, 1000, 64, &handle), kSuccess);
  equal(nccl("ncclCommDeregister", comm, handle), kSuccess);
  equal(nccl("ncclCommMemStats", comm, 0, &bytes), kSuccess);
  equal(nccl("ncclCommSuspend", comm, 0) + nccl("ncclCommResume", comm), kSuccess);
  equal(nccl("ncclCommWindowRegister", comm, 1000, 64, &handle, 0), kInvalidUsage);
  equal(nccl("ncclCommWindowDeregister", comm, 0), kInvalidUsage);
  equal(nccl("ncclDevCommCreate", comm, 0, 0), kInvalidUsage);
  equal(nccl("ncclDevCommDestroy", comm, 0), kInvalidUsage);
  equal(nccl("ncclPutSignal", 1, 2, 3, 0, 5, 6, 7, 8, 9, comm, 9), kInvalidUsage);
  equal(nccl("ncclSignal", 1, 2, 3, 4, comm, 9), kInvalidUsage);
  equal(nccl("ncclWaitSignal", 1, 2, comm, 9), kInvalidUsage);
  same(told(), {});
}

void test_errors() {
  const Comm comm = ours('d');
  equal(last_error(comm).empty(), 1);
  engine_answers(kMismatch);
  equal(nccl("ncclAllReduce", 1, 2, 3, 7, 0, comm, 9), kInvalidUsage);
  equal(last_error(nullptr) == "the engine's text", 1);
  equal(last_error(comm) == "the engine's text", 1);
  real_answers(kSystemError);
  nccl("ncclCommDestroy", 5);
  equal(last_error(nullptr) == "real last error", 1);  // it has failed since
  real_answers(kSuccess);
  nccl("ncclGroupStart");
  nccl("ncclSend", 1, 2, 7, 0, comm, 9);
  equal(nccl("ncclGroupEnd"), kInvalidUsage);
  engine_answers(kAborted);
  equal(number("ncclCommGetAsyncError", comm), kRemoteError);
  equal(last_error(nullptr) == "the engine's text", 1);
  engine_answers(0);
  told();
}

void test_ends() {
  const Comm destroyed = ours('e');
  const Comm aborted = ours('f');
  equal(nccl("ncclCommFinalize", destroyed), kSuccess);
  equal(nccl("ncclCommDestroy", destroyed), kSuccess);
  equal(nccl("ncclCommRevoke", aborted, 0), kSuccess);
  equal(nccl("ncclCommAbort", aborted), kSuccess);
  same(told(), {"engine 101 close", "engine 102 abort", "engine 102 abort", "engine 102 close"});
  int error = 0;
  equal(nccl("ncclCommGetAsyncError", aborted, &error), kInvalidArgument);
  equal(nccl("ncclCommDestroy", destroyed), kInvalidArgument);
  equal(nccl("ncclAllReduce", 1, 2, 3, 7, 0, destroyed, 9), kInvalidArgument);
  equal(nccl("ncclAlltoAll", 1, 2, 3, 7, destroyed, 9), kInvalidArgument);
  CHECK(ours('g') != destroyed, "a handle is never given again");
  same(told(), {});
}

}  // namespace

void test_lives() {
  call<void(bool)>("fake_engine_runs", true);
  test_beginnings();
  test_children();
  test_memory();
  test_errors();
  test_ends();
}

}  // namespace pruned::shim::testing
