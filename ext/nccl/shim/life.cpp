// How communicators end, and how they go wrong.

#include "communicator.h"
#include "failure.h"
#include "handles.h"
#include "real.h"

namespace pruned::shim {
namespace {

Result closed(Comm comm) {
  return guarded([&] {
    Communicator& ended = communicator(comm);
    remove_communicator(comm);
    ended.close();
    return kSuccess;
  });
}

Result aborted(Comm comm) {
  return guarded([&] {
    communicator(comm).abort();
    return kSuccess;
  });
}

}  // namespace
}  // namespace pruned::shim

using namespace pruned::shim;

/// Nothing to flush: what was launched goes on by itself.
SHIM_ENTRY Result ncclCommFinalize(Comm comm) {
  if (!is_ours(comm)) {
    return SHIM_PASS(ncclCommFinalize, comm);
  }
  return guarded([&] { return communicator(comm).state(); });
}

SHIM_ENTRY Result ncclCommDestroy(Comm comm) {
  return is_ours(comm) ? closed(comm) : SHIM_PASS(ncclCommDestroy, comm);
}

SHIM_ENTRY Result ncclCommAbort(Comm comm) {
  if (!is_ours(comm)) {
    return SHIM_PASS(ncclCommAbort, comm);
  }
  const Result result = aborted(comm);
  return result != kSuccess ? result : closed(comm);
}

SHIM_ENTRY Result ncclCommRevoke(Comm comm, int flags) {
  return is_ours(comm) ? aborted(comm) : SHIM_PASS(ncclCommRevoke, comm, flags);
}

SHIM_ENTRY Result ncclCommGetAsyncError(Comm comm, Result* error) {
  if (!is_ours(comm)) {
    return SHIM_PASS(ncclCommGetAsyncError, comm, error);
  }
  return guarded([&] {
    *error = communicator(comm).state();
    return kSuccess;
  });
}

/// Memory of ours stays where it is: what a real communicator would hold is held for the peak's sake.
SHIM_ENTRY Result ncclCommSuspend(Comm comm, int flags) {
  return is_ours(comm) ? kSuccess : SHIM_PASS(ncclCommSuspend, comm, flags);
}

SHIM_ENTRY Result ncclCommResume(Comm comm) { return is_ours(comm) ? kSuccess : SHIM_PASS(ncclCommResume, comm); }
