// The part of the CUDA driver that paging needs, found at run time: this builds, and lies idle, where there is no CUDA.
//
// Declarations follow the driver API reference (CUDA 12 and 13); only what is used is declared.

#pragma once

#include <cstddef>
#include <cstdint>

namespace residency {

using Result = int;
using DevicePointer = std::uint64_t;
using Physical = std::uint64_t;
using Context = void*;
using Stream = void*;
using Event = void*;

constexpr Result kOutOfMemory = 2;
constexpr Result kNotReady = 600;

struct Location {
  int type = 1;  // a device
  int id = 0;
};

struct PhysicalKind {
  int type = 1;  // pinned
  int handle_types = 0;
  Location location;
  void* win32 = nullptr;
  std::uint64_t flags = 0;
};

struct Access {
  Location location;
  int flags = 3;  // read and write
};

struct Driver {
  Result (*cuGetErrorString)(Result, const char**);
  Result (*cuCtxGetCurrent)(Context*);
  Result (*cuCtxSetCurrent)(Context);
  Result (*cuCtxGetDevice)(int*);
  Result (*cuCtxSynchronize)();
  Result (*cuMemGetInfo)(std::size_t*, std::size_t*);
  Result (*cuMemGetAllocationGranularity)(std::size_t*, const PhysicalKind*, int);
  Result (*cuMemAddressReserve)(DevicePointer*, std::size_t, std::size_t, DevicePointer, unsigned long long);
  Result (*cuMemAddressFree)(DevicePointer, std::size_t);
  Result (*cuMemCreate)(Physical*, std::size_t, const PhysicalKind*, unsigned long long);
  Result (*cuMemRelease)(Physical);
  Result (*cuMemMap)(DevicePointer, std::size_t, std::size_t, Physical, unsigned long long);
  Result (*cuMemUnmap)(DevicePointer, std::size_t);
  Result (*cuMemSetAccess)(DevicePointer, std::size_t, const Access*, std::size_t);
  Result (*cuMemHostRegister)(void*, std::size_t, unsigned);
  Result (*cuMemHostUnregister)(void*);
  Result (*cuMemcpyDtoHAsync)(void*, DevicePointer, std::size_t, Stream);
  Result (*cuMemcpyHtoDAsync)(DevicePointer, const void*, std::size_t, Stream);
  Result (*cuStreamCreate)(Stream*, unsigned);
  Result (*cuStreamDestroy)(Stream);
  Result (*cuStreamSynchronize)(Stream);
  Result (*cuEventCreate)(Event*, unsigned);
  Result (*cuEventDestroy)(Event);
  Result (*cuEventRecord)(Event, Stream);
  Result (*cuEventQuery)(Event);
  Result (*cuEventSynchronize)(Event);
  Result (*cuEventElapsedTime)(float*, Event, Event);
};

/// The driver of this process; throws Failure where there is none, or one that is too old.
const Driver& driver();

/// A function of the driver by its name; throws Failure where there is none.
void* driver_entry(const char* name);

/// Throws Failure for any result but success, with the driver's own words.
void check(Result result, const char* call);

}  // namespace residency

#define RESIDENCY_CHECK(call) ::residency::check(::residency::driver().call, #call)
