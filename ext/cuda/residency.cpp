// What the preloaded library puts in the place of the runtime's cudaMalloc and cudaFree, and its C interface.

#include <cstdio>
#include <functional>
#include <system_error>

#include "api.h"
#include "errors.h"
#include "memory.h"
#include "room.h"
#include "runtime.h"

namespace {

using residency::Failure;
using residency::kSuccess;
using residency::memory;

constexpr int kMemoryAllocation = 2;
constexpr int kUnknown = 999;

thread_local std::string last_error;

int32_t guarded(const std::function<void()>& body) noexcept {
  try {
    body();
    return RESIDENCY_DONE;
  } catch (const Failure& failure) {
    last_error = failure.what();
    return failure.status;
  } catch (const std::exception& error) {
    last_error = error.what();
    return RESIDENCY_FAILED;
  }
}

/// What the program gets where paging itself fails: an error of CUDA, and the reason on its standard error.
int told(const std::exception& error) {
  std::fprintf(stderr, "prism: residency: %s\n", error.what());
  return kUnknown;
}

}  // namespace

extern "C" {

RESIDENCY_API int cudaFree(void* pointer);

RESIDENCY_API int cudaMalloc(void** pointer, std::size_t bytes) {
  if (bytes < residency::kLeast || pointer == nullptr) {
    ++memory().passed;
    return RESIDENCY_RUNTIME(cudaMalloc, pointer, bytes);
  }
  try {
    if (!memory().takes(bytes)) {
      // The runtime makes its context when it is first used; this is the call that asks for nothing else.
      const int ready = RESIDENCY_RUNTIME(cudaFree, nullptr);
      if (ready != kSuccess || !memory().takes(bytes)) {
        return ready != kSuccess ? ready : RESIDENCY_RUNTIME(cudaMalloc, pointer, bytes);
      }
    }
    const residency::DevicePointer start = memory().allocate(bytes);
    *pointer = reinterpret_cast<void*>(start);
    return start != 0 ? kSuccess : kMemoryAllocation;
  } catch (const std::exception& error) {
    return told(error);
  }
}

RESIDENCY_API int cudaFree(void* pointer) {
  try {
    if (pointer != nullptr && memory().free(reinterpret_cast<residency::DevicePointer>(pointer))) {
      return kSuccess;
    }
  } catch (const std::exception& error) {
    return told(error);
  }
  return RESIDENCY_RUNTIME(cudaFree, pointer);
}

const char* residency_error() { return last_error.c_str(); }

int32_t residency_open(const char* path, uint32_t slots, uint32_t owner) {
  return guarded([&] { memory().open(path, slots, owner); });
}

int32_t residency_out(residency_moved* moved) {
  return guarded([&] { *moved = memory().out(); });
}

int32_t residency_in(uint32_t patience_ms, residency_moved* moved) {
  return guarded([&] { *moved = memory().in(patience_ms); });
}

int32_t residency_spill(const char* path, residency_moved* moved) {
  return guarded([&] { *moved = memory().spill(path); });
}

void residency_ask_through(int32_t descriptor) { residency::ask_through(descriptor); }

void residency_read(residency_figures* figures) { *figures = memory().figures(); }

}  // extern "C"
