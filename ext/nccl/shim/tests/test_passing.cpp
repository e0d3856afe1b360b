// Everything that is none of ours goes to the real library, once, as it was given.

#include <dlfcn.h>

#include <array>
#include <cstring>

#include "nccl.h"

namespace pruned::shim::testing {
namespace {

struct Function {
  const char* name;
  int words;
  bool since_2_29 = false;
};

constexpr std::array kFunctions = {
    Function{"ncclGetVersion", 1},
    Function{"ncclGetUniqueId", 1},
    Function{"ncclCommInitRankScalable", 6},
    Function{"ncclCommFinalize", 1},
    Function{"ncclCommDestroy", 1},
    Function{"ncclCommAbort", 1},
    Function{"ncclCommRevoke", 2},
    Function{"ncclCommSplit", 5},
    Function{"ncclCommShrink", 6},
    Function{"ncclCommGetAsyncError", 2},
    Function{"ncclCommCount", 2},
    Function{"ncclCommCuDevice", 2},
    Function{"ncclCommUserRank", 2},
    Function{"ncclCommRegister", 4},
    Function{"ncclCommDeregister", 2},
    Function{"ncclCommWindowRegister", 5},
    Function{"ncclCommWindowDeregister", 2},
    Function{"ncclDevCommCreate", 3},
    Function{"ncclDevCommDestroy", 2},
    Function{"ncclRedOpCreatePreMulSum", 5},
    Function{"ncclRedOpDestroy", 2},
    Function{"ncclReduce", 8},
    Function{"ncclBcast", 6},
    Function{"ncclBroadcast", 7},
    Function{"ncclAllReduce", 7},
    Function{"ncclReduceScatter", 7},
    Function{"ncclAllGather", 6},
    Function{"ncclAlltoAll", 6},
    Function{"ncclGather", 7},
    Function{"ncclScatter", 7},
    Function{"ncclSend", 6},
    Function{"ncclRecv", 6},
    Function{"ncclGroupStart", 0},
    Function{"ncclGroupEnd", 0},
    Function{"ncclGroupSimulateEnd", 1},
    Function{"ncclMemAlloc", 2},
    Function{"ncclMemFree", 1},
    Function{"ncclCommGrow", 6, true},
    Function{"ncclCommGetUniqueId", 2, true},
    Function{"ncclCommSuspend", 2, true},
    Function{"ncclCommResume", 1, true},
    Function{"ncclCommMemStats", 3, true},
    Function{"ncclGetPeerDevicePointer", 4, true},
    Function{"ncclGetLsaMultimemDevicePointer", 3, true},
    Function{"ncclPutSignal", 11, true},
    Function{"ncclSignal", 6, true},
    Function{"ncclWaitSignal", 4, true},
};

/// What the fake tells, up to the last word that the function has.
std::string beginning(const Function& function) {
  std::string line = std::string("real ") + function.name;
  for (int word = 1; word <= function.words; ++word) {
    line += " " + std::to_string(word);
  }
  return line;
}

void passes(const Function& function) {
  const int result = nccl(function.name, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
  const auto lines = told();
  if (function.since_2_29 && dlsym(RTLD_DEFAULT, "pncclCommGrow") == nullptr) {
    equal(result, kSystemError);
    equal(lines.size(), 0);
    const std::string text = call<const char*(Comm)>("ncclGetLastError", nullptr);
    CHECK(text.find(function.name) != std::string::npos, text);
    return;
  }
  equal(result, kRemoteError);
  const std::string wanted = beginning(function) + " ";
  CHECK(lines.size() == 1 && (lines[0] + " ").starts_with(wanted), wanted + "was not what it came to");
}

/// The library that a symbol comes from.
std::string origin(const char* name) {
  Dl_info info{};
  dladdr(function(name), &info);
  return info.dli_fname;
}

void test_ids() {
  call<int(long, int, UniqueId, int)>("ncclCommInitRank", 5, 6, id('a'), 7);
  call<int(long, int, UniqueId, int, long)>("ncclCommInitRankConfig", 5, 6, id('b'), 7, 8);
  same(told(), {"real ncclCommInitRank 5 6 97 0 7 0 0 0 0 0 0", "real ncclCommInitRankConfig 5 6 98 0 7 8 0 0 0 0 0"});
}

void test_calls_of_its_own() {
  nccl("ncclCommInitAll", 1, 2, 3);
  const auto lines = told();
  equal(lines.size(), 3);
  CHECK(lines[1].starts_with("real ncclGetUniqueId 41 "), lines[1]);
  CHECK(lines[2].starts_with("real ncclCommGetAsyncError 42 43 "), lines[2]);
}

}  // namespace

void test_passing(const char* shim) {
  same(told(), {"real loaded"});
  CHECK(origin("ncclAllReduce") == shim, origin("ncclAllReduce"));
  CHECK(origin("pncclAllReduce") != shim, origin("pncclAllReduce"));
  for (const bool active : {false, true}) {
    call<void(bool)>("fake_engine_runs", active);
    real_answers(kRemoteError);
    for (const Function& function : kFunctions) {
      if (!active || std::strcmp(function.name, "ncclCommInitRankScalable") != 0) {
        passes(function);
      }
    }
    real_answers(kSuccess);
    test_ids();
    test_calls_of_its_own();
  }
  CHECK(std::strcmp(call<const char*(int)>("ncclGetErrorString", 0), "real text of a result") == 0, "its text");
}

}  // namespace pruned::shim::testing
