// Collectives: those on communicators of ours become calls of the engine, all others are the real library's.

#include <cstdint>

#include "batch.h"
#include "failure.h"
#include "handles.h"
#include "real.h"
#include "types.h"

namespace pruned::shim {
namespace {

constexpr int kNone = -1;  // no reduction, or no root

/// What a collective is given, in NCCL's numbers.
struct Given {
  Kind kind;
  const void* input;
  void* output;
  std::size_t count;
  int dtype;
  int op = kNone;
  int root = kNone;
};

/// A reduction of the program's own is a sum with a factor.
void reduce_by(Call& call, int op) {
  if (op < kStaticOps) {
    call.work.reduce = reduce_of(op);
    return;
  }
  call.scale = call.communicator->scales().at(op);
  call.work.reduce = Reduce::kSum;
  if (call.scale->dtype != call.work.dtype) {
    throw Failure(kInvalidArgument, "this reduction was made for another type of elements");
  }
}

Result collective(Comm comm, Stream stream, const Given& given) {
  return guarded([&] {
    Call call{.communicator = &communicator(comm), .stream = stream};
    call.work = {.kind = given.kind,
                 .dtype = dtype_of(given.dtype),
                 .root = given.root,
                 .count = static_cast<std::int64_t>(given.count),
                 .input = given.input,
                 .output = given.output};
    if (given.op != kNone) {
      reduce_by(call, given.op);
    }
    submit(call);
    return kSuccess;
  });
}

}  // namespace
}  // namespace pruned::shim

using namespace pruned::shim;
using pruned::Kind;

SHIM_ENTRY Result ncclAllReduce(const void* input, void* output, std::size_t count, int dtype, int op, Comm comm,
                                Stream stream) {
  if (!is_ours(comm)) {
    return SHIM_PASS(ncclAllReduce, input, output, count, dtype, op, comm, stream);
  }
  return collective(comm, stream, {Kind::kAllReduce, input, output, count, dtype, op});
}

SHIM_ENTRY Result ncclReduceScatter(const void* input, void* output, std::size_t count, int dtype, int op, Comm comm,
                                    Stream stream) {
  if (!is_ours(comm)) {
    return SHIM_PASS(ncclReduceScatter, input, output, count, dtype, op, comm, stream);
  }
  return collective(comm, stream, {Kind::kReduceScatter, input, output, count, dtype, op});
}

SHIM_ENTRY Result ncclAllGather(const void* input, void* output, std::size_t count, int dtype, Comm comm,
                                Stream stream) {
  if (!is_ours(comm)) {
    return SHIM_PASS(ncclAllGather, input, output, count, dtype, comm, stream);
  }
  return collective(comm, stream, {Kind::kAllGather, input, output, count, dtype});
}

SHIM_ENTRY Result ncclReduce(const void* input, void* output, std::size_t count, int dtype, int op, int root,
                             Comm comm, Stream stream) {
  if (!is_ours(comm)) {
    return SHIM_PASS(ncclReduce, input, output, count, dtype, op, root, comm, stream);
  }
  return collective(comm, stream, {Kind::kReduce, input, output, count, dtype, op, root});
}

SHIM_ENTRY Result ncclBroadcast(const void* input, void* output, std::size_t count, int dtype, int root, Comm comm,
                                Stream stream) {
  if (!is_ours(comm)) {
    return SHIM_PASS(ncclBroadcast, input, output, count, dtype, root, comm, stream);
  }
  return collective(comm, stream, {Kind::kBroadcast, input, output, count, dtype, kNone, root});
}

SHIM_ENTRY Result ncclBcast(void* data, std::size_t count, int dtype, int root, Comm comm, Stream stream) {
  if (!is_ours(comm)) {
    return SHIM_PASS(ncclBcast, data, count, dtype, root, comm, stream);
  }
  return collective(comm, stream, {Kind::kBroadcast, data, data, count, dtype, kNone, root});
}
