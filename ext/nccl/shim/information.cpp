// What communicators, results and the library say of themselves.

#include <cstdint>

#include "communicator.h"
#include "failure.h"
#include "handles.h"
#include "real.h"

namespace pruned::shim {
namespace {

Result told(Comm comm, int* value, int (Communicator::*figure)() const) {
  return guarded([&] {
    *value = (communicator(comm).*figure)();
    return kSuccess;
  });
}

/// What a real function says that returns a text.
template <typename Function, typename Argument>
const char* text_of(const char* profiled_name, Argument argument, Function*) {
  const auto real = reinterpret_cast<Function*>(real_entry(profiled_name));
  return real != nullptr ? real(argument) : "NCCL is not there";
}

}  // namespace
}  // namespace pruned::shim

using namespace pruned::shim;

SHIM_ENTRY Result ncclGetVersion(int* version) { return SHIM_PASS(ncclGetVersion, version); }

SHIM_ENTRY const char* ncclGetErrorString(Result result) {
  return text_of("pncclGetErrorString", result, &ncclGetErrorString);
}

/// Without a communicator, of whatever went wrong last in this process.
SHIM_ENTRY const char* ncclGetLastError(Comm comm) {
  if (!is_ours(comm)) {
    const char* ours = comm == nullptr ? last_failure() : nullptr;
    return ours != nullptr ? ours : text_of("pncclGetLastError", comm, &ncclGetLastError);
  }
  const char* text = "";
  guarded([&] {
    text = communicator(comm).text();
    return kSuccess;
  });
  return text;
}

SHIM_ENTRY Result ncclCommCount(Comm comm, int* count) {
  return is_ours(comm) ? told(comm, count, &Communicator::size) : SHIM_PASS(ncclCommCount, comm, count);
}

SHIM_ENTRY Result ncclCommUserRank(Comm comm, int* rank) {
  return is_ours(comm) ? told(comm, rank, &Communicator::rank) : SHIM_PASS(ncclCommUserRank, comm, rank);
}

SHIM_ENTRY Result ncclCommCuDevice(Comm comm, int* device) {
  return is_ours(comm) ? told(comm, device, &Communicator::device) : SHIM_PASS(ncclCommCuDevice, comm, device);
}

/// Nothing that NCCL would account for: what is reserved for a communicator of ours is the engine's.
SHIM_ENTRY Result ncclCommMemStats(Comm comm, int statistic, std::uint64_t* value) {
  if (!is_ours(comm)) {
    return SHIM_PASS(ncclCommMemStats, comm, statistic, value);
  }
  *value = 0;
  return kSuccess;
}
