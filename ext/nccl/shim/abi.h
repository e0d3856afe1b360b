// What callers of NCCL's C interface pass: the ABI of its versions 2.28 to 2.30, as far as a caller can see it.

#pragma once

#include <cstddef>

struct CUstream_st;  // cudaStream_t is a pointer to it

/// In front of a function that stands before NCCL's of the same name.
#define SHIM_ENTRY extern "C" __attribute__((visibility("default")))

namespace pruned::shim {

using Comm = struct OpaqueComm*;
using Window = struct OpaqueWindow*;
using Stream = CUstream_st*;

enum Result : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

struct UniqueId {
  char bytes[128];
};

/// How a communicator's configuration begins, since 2.14; what follows is the real library's affair.
struct Config {
  std::size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
};

constexpr int kNoColor = -1;   // of a member that a split leaves out
constexpr int kStaticOps = 5;  // reductions from here on are made by the program, for one communicator each

}  // namespace pruned::shim
