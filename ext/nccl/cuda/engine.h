// What the nccl* functions need of the device engine.
//
// A Group here is one communicator over members of a process group, some of which are virtual. Its launches take the
// group's planned operations in their order and are held to them. Nothing here includes CUDA's headers.

#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "../element.h"

struct CUstream_st;  // cudaStream_t is a pointer to it

namespace pruned::device {

/// One collective, as an nccl call gives it: `count` is that call's count (of ncclReduceScatter what each member gets,
/// of ncclAllGather what each gives), `root` the communicator's rank.
struct Work {
  Kind kind = Kind::kAllReduce;  // one that runs along the ring or a chain
  Dtype dtype = Dtype::kNone;
  Reduce reduce = Reduce::kNone;
  int root = -1;
  std::int64_t count = 0;
  const void* input = nullptr;
  void* output = nullptr;
  const void* scale = nullptr;   // a pre-multiplied sum: one number of `dtype` that inputs are multiplied by
  bool scale_on_device = false;  // read when the kernel runs; else now
};

/// One ncclSend or ncclRecv; `peer` is the communicator's rank, and may be the own one.
struct Message {
  int peer = -1;
  bool sends = false;
  void* data = nullptr;  // a send only reads it
  std::int64_t bytes = 0;
};

enum class Verdict {
  kFine,
  kMismatch,  // ncclInvalidUsage: the program does something else than was planned; nothing was launched
  kAborted,   // ncclRemoteError
  kFailed,    // ncclUnhandledCudaError
};

class Group {
 public:
  virtual ~Group() = default;

  virtual int size() const = 0;
  virtual int rank() const = 0;
  virtual int device() const = 0;

  /// Enqueues the operation; does not block.
  virtual Verdict launch(const Work& work, CUstream_st* stream) = 0;
  /// All messages of one group call, which run at one time.
  virtual Verdict launch(std::span<const Message> messages, CUstream_st* stream) = 0;

  /// What ncclCommGetAsyncError tells: the first error so far, and its text.
  virtual Verdict error() const = 0;
  virtual std::string text() const = 0;

  /// Ends kernels that wait; later launches return kAborted.
  virtual void abort() = 0;
  /// ncclCommDestroy: the group gives back its memory when its last communicator is closed. The object is gone.
  virtual void close() = 0;
};

/// Whether prism_device_begin() was called, and prism_device_end() not yet.
bool active();

/// The communicator that this id was said to mean (prism_device_identify); null: it is none of ours, pass it through.
/// A new object for each call. Throws std::runtime_error if `size` or `rank` are not what was said.
Group* group_of(const std::uint8_t (&id)[128], int size, int rank);

}  // namespace pruned::device
