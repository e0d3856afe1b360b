#include "driver.h"

#include <dlfcn.h>

#include <string>

#include "errors.h"

namespace residency {
namespace {

void* open_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    throw Failure(RESIDENCY_FAILED, std::string("no CUDA driver: ") + dlerror());
  }
  return library;
}

Driver load() {
  Driver found{};
#define RESIDENCY_FIND(entry, version) \
  found.entry = reinterpret_cast<decltype(found.entry)>(driver_entry(#entry version))
  RESIDENCY_FIND(cuGetErrorString, "");
  RESIDENCY_FIND(cuCtxGetCurrent, "");
  RESIDENCY_FIND(cuCtxSetCurrent, "");
  RESIDENCY_FIND(cuCtxGetDevice, "");
  RESIDENCY_FIND(cuCtxSynchronize, "");
  RESIDENCY_FIND(cuMemGetInfo, "_v2");
  RESIDENCY_FIND(cuMemGetAllocationGranularity, "");
  RESIDENCY_FIND(cuMemAddressReserve, "");
  RESIDENCY_FIND(cuMemAddressFree, "");
  RESIDENCY_FIND(cuMemCreate, "");
  RESIDENCY_FIND(cuMemRelease, "");
  RESIDENCY_FIND(cuMemMap, "");
  RESIDENCY_FIND(cuMemUnmap, "");
  RESIDENCY_FIND(cuMemSetAccess, "");
  RESIDENCY_FIND(cuMemHostRegister, "_v2");
  RESIDENCY_FIND(cuMemHostUnregister, "");
  RESIDENCY_FIND(cuMemcpyDtoHAsync, "_v2");
  RESIDENCY_FIND(cuMemcpyHtoDAsync, "_v2");
  RESIDENCY_FIND(cuStreamCreate, "");
  RESIDENCY_FIND(cuStreamDestroy, "_v2");
  RESIDENCY_FIND(cuStreamSynchronize, "");
  RESIDENCY_FIND(cuEventCreate, "");
  RESIDENCY_FIND(cuEventDestroy, "_v2");
  RESIDENCY_FIND(cuEventRecord, "");
  RESIDENCY_FIND(cuEventQuery, "");
  RESIDENCY_FIND(cuEventSynchronize, "");
  RESIDENCY_FIND(cuEventElapsedTime, "");
#undef RESIDENCY_FIND
  return found;
}

}  // namespace

void* driver_entry(const char* name) {
  static void* const library = open_driver();
  void* entry = dlsym(library, name);
  if (entry == nullptr) {
    const std::string text(name);
    throw Failure(RESIDENCY_FAILED, "libcuda.so.1 has no " + text + "; a driver of CUDA 12 or later is needed");
  }
  return entry;
}

const Driver& driver() {
  static const Driver loaded = load();
  return loaded;
}

void check(Result result, const char* call) {
  if (result == 0) {
    return;
  }
  const char* text = nullptr;
  driver().cuGetErrorString(result, &text);
  const int status = result == kOutOfMemory ? RESIDENCY_DEVICE_FULL : RESIDENCY_FAILED;
  throw Failure(status, std::string(call) + ": " + (text != nullptr ? text : "error") + " (" + std::to_string(result) + ")");
}

}  // namespace residency
