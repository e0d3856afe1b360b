// Groups of calls. The real library has its own beside ours, as a program may use communicators of both in one.

#include "batch.h"
#include "failure.h"
#include "real.h"

using namespace pruned::shim;

SHIM_ENTRY Result ncclGroupStart() {
  const Result real = SHIM_PASS(ncclGroupStart);
  if (real == kSuccess) {
    begin_batch();
  }
  return real;
}

/// Ours go first: the real library may wait here until the other members of a communicator have come.
SHIM_ENTRY Result ncclGroupEnd() {
  const Result ours = guarded([] {
    end_batch();
    return kSuccess;
  });
  const Result real = SHIM_PASS(ncclGroupEnd);
  return ours != kSuccess ? ours : real;
}

SHIM_ENTRY Result ncclGroupSimulateEnd(void* estimate) {
  drop_batch();
  return SHIM_PASS(ncclGroupSimulateEnd, estimate);
}
