// Memory for NCCL, and memory made known to it. Known to a communicator of ours it is like any other memory; windows
// and what reaches through them into other members' memory it does not have.

#include "communicator.h"
#include "failure.h"
#include "handles.h"
#include "real.h"

namespace pruned::shim {
namespace {

Result refused(const char* what) {
  return guarded([&]() -> Result {
    throw Failure(kInvalidUsage, std::string(what) + " reaches into the memory of other members, and virtual members " +
                                     "have none: use collectives, or send and receive");
  });
}

}  // namespace
}  // namespace pruned::shim

using namespace pruned::shim;

SHIM_ENTRY Result ncclMemAlloc(void** data, std::size_t bytes) { return SHIM_PASS(ncclMemAlloc, data, bytes); }

SHIM_ENTRY Result ncclMemFree(void* data) { return SHIM_PASS(ncclMemFree, data); }

SHIM_ENTRY Result ncclCommRegister(Comm comm, void* data, std::size_t bytes, void** handle) {
  if (!is_ours(comm)) {
    return SHIM_PASS(ncclCommRegister, comm, data, bytes, handle);
  }
  *handle = data;
  return kSuccess;
}

SHIM_ENTRY Result ncclCommDeregister(Comm comm, void* handle) {
  return is_ours(comm) ? kSuccess : SHIM_PASS(ncclCommDeregister, comm, handle);
}

SHIM_ENTRY Result ncclCommWindowRegister(Comm comm, void* data, std::size_t bytes, Window* window, int flags) {
  return is_ours(comm) ? refused("a window") : SHIM_PASS(ncclCommWindowRegister, comm, data, bytes, window, flags);
}

SHIM_ENTRY Result ncclCommWindowDeregister(Comm comm, Window window) {
  return is_ours(comm) ? refused("a window") : SHIM_PASS(ncclCommWindowDeregister, comm, window);
}

SHIM_ENTRY Result ncclDevCommCreate(Comm comm, const void* requirements, void* result) {
  return is_ours(comm) ? refused("a device communicator") : SHIM_PASS(ncclDevCommCreate, comm, requirements, result);
}

SHIM_ENTRY Result ncclDevCommDestroy(Comm comm, const void* device_communicator) {
  return is_ours(comm) ? refused("a device communicator") : SHIM_PASS(ncclDevCommDestroy, comm, device_communicator);
}

SHIM_ENTRY Result ncclGetPeerDevicePointer(Window window, std::size_t offset, int peer, void** result) {
  return SHIM_PASS(ncclGetPeerDevicePointer, window, offset, peer, result);
}

SHIM_ENTRY Result ncclGetLsaMultimemDevicePointer(Window window, std::size_t offset, void** result) {
  return SHIM_PASS(ncclGetLsaMultimemDevicePointer, window, offset, result);
}

SHIM_ENTRY Result ncclPutSignal(const void* data, std::size_t count, int dtype, int peer, Window window,
                                std::size_t offset, int signal, int context, unsigned int flags, Comm comm,
                                Stream stream) {
  return is_ours(comm) ? refused("ncclPutSignal()")
                       : SHIM_PASS(ncclPutSignal, data, count, dtype, peer, window, offset, signal, context, flags,
                                   comm, stream);
}

SHIM_ENTRY Result ncclSignal(int peer, int signal, int context, unsigned int flags, Comm comm, Stream stream) {
  return is_ours(comm) ? refused("ncclSignal()") : SHIM_PASS(ncclSignal, peer, signal, context, flags, comm, stream);
}

SHIM_ENTRY Result ncclWaitSignal(int count, void* signals, Comm comm, Stream stream) {
  return is_ours(comm) ? refused("ncclWaitSignal()") : SHIM_PASS(ncclWaitSignal, count, signals, comm, stream);
}
