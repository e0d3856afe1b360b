#include "devices.h"

#include <atomic>
#include <cstddef>

#include "api.h"
#include "errors.h"
#include "memory.h"
#include "runtime.h"

namespace {

using residency::kSuccess;

constexpr int kInvalidDevice = 101, kPeerAccessAlreadyEnabled = 704;
constexpr int kNoDriver = 3;  // not initialized
constexpr int kPhysical = 0;  // the process sees no other: CUDA_VISIBLE_DEVICES names one

std::atomic<int> presented{0};
thread_local int current = 0;

/// The number that the runtime knows a device by, or one that it refuses.
int physical(int device) {
  const int count = presented;
  if (count == 0) {
    return device;
  }
  return device >= 0 && device < count ? kPhysical : -1;
}

bool valid(int device) { return physical(device) >= 0; }

void* driver(const char* name) {
  try {
    return residency::driver_entry(name);
  } catch (const residency::Failure&) {
    return nullptr;
  }
}

/// cudaPointerAttributes; what follows are addresses.
struct Pointed {
  int type;
  int device;
};

}  // namespace

int residency::current_device() { return current; }

extern "C" {

void residency_present(int32_t devices) { presented = devices; }

RESIDENCY_API int cudaGetDeviceCount(int* count) {
  const int result = RESIDENCY_RUNTIME(cudaGetDeviceCount, count);
  if (result == kSuccess && presented > 0) {
    *count = presented;
  }
  return result;
}

RESIDENCY_API int cudaSetDevice(int device) {
  const int result = valid(device) ? RESIDENCY_RUNTIME(cudaSetDevice, physical(device)) : kInvalidDevice;
  if (result == kSuccess) {
    current = device;
  }
  return result;
}

RESIDENCY_API int cudaGetDevice(int* device) {
  const int result = RESIDENCY_RUNTIME(cudaGetDevice, device);
  if (result == kSuccess && presented > 0) {
    *device = current;
  }
  return result;
}

RESIDENCY_API int cudaInitDevice(int device, unsigned flags, unsigned which) {
  return RESIDENCY_RUNTIME(cudaInitDevice, physical(device), flags, which);
}

RESIDENCY_API int cudaGetDeviceProperties(void* properties, int device) {
  return RESIDENCY_RUNTIME(cudaGetDeviceProperties, properties, physical(device));
}

RESIDENCY_API int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  return RESIDENCY_RUNTIME(cudaDeviceGetAttribute, value, attribute, physical(device));
}

RESIDENCY_API int cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return RESIDENCY_RUNTIME(cudaDeviceGetPCIBusId, text, length, physical(device));
}

RESIDENCY_API int cudaDeviceGetDefaultMemPool(void** pool, int device) {
  return RESIDENCY_RUNTIME(cudaDeviceGetDefaultMemPool, pool, physical(device));
}

RESIDENCY_API int cudaPointerGetAttributes(void* attributes, const void* pointer) {
  const int result = RESIDENCY_RUNTIME(cudaPointerGetAttributes, attributes, pointer);
  if (result == kSuccess && presented > 0 && static_cast<Pointed*>(attributes)->type != 0) {
    const auto address = reinterpret_cast<residency::DevicePointer>(pointer);
    static_cast<Pointed*>(attributes)->device = residency::memory().device_of(address).value_or(current);
  }
  return result;
}

RESIDENCY_API int cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (presented == 0) {
    return RESIDENCY_RUNTIME(cudaDeviceCanAccessPeer, can, device, peer);
  }
  *can = device != peer ? 1 : 0;
  return valid(device) && valid(peer) ? kSuccess : kInvalidDevice;
}

RESIDENCY_API int cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (presented == 0) {
    return RESIDENCY_RUNTIME(cudaDeviceEnablePeerAccess, peer, flags);
  }
  return valid(peer) ? kPeerAccessAlreadyEnabled : kInvalidDevice;
}

RESIDENCY_API int cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                      void* stream) {
  return RESIDENCY_RUNTIME(cudaMemcpyPeerAsync, to, physical(to_device), from, physical(from_device), bytes, stream);
}

}  // extern "C"

// The driver's own numbering, for those who are linked to it: torch asks for primary contexts, Triton for devices.
// The runtime finds its driver elsewhere, and keeps the true numbers.

#define RESIDENCY_DRIVER(name, ...)                                               \
  [&] {                                                                           \
    static const auto entry = reinterpret_cast<decltype(&::name)>(driver(#name)); \
    return entry != nullptr ? entry(__VA_ARGS__) : kNoDriver;                     \
  }()

extern "C" {

RESIDENCY_API int cuDeviceGetCount(int* count) {
  const int result = RESIDENCY_DRIVER(cuDeviceGetCount, count);
  if (result == kSuccess && presented > 0) {
    *count = presented;
  }
  return result;
}

RESIDENCY_API int cuDeviceGet(int* device, int ordinal) {
  return RESIDENCY_DRIVER(cuDeviceGet, device, physical(ordinal));
}

RESIDENCY_API int cuDeviceGetAttribute(int* value, int attribute, int device) {
  return RESIDENCY_DRIVER(cuDeviceGetAttribute, value, attribute, physical(device));
}

RESIDENCY_API int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  return RESIDENCY_DRIVER(cuDevicePrimaryCtxGetState, physical(device), flags, active);
}

RESIDENCY_API int cuDevicePrimaryCtxRetain(void** context, int device) {
  return RESIDENCY_DRIVER(cuDevicePrimaryCtxRetain, context, physical(device));
}

}  // extern "C"
