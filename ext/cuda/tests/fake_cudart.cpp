// A fake libcudart.so.13: memory of the process, a context that the first call makes, and a device that is set and got.

#include <cstdlib>

#include "fake.h"

extern "C" void fake_make_context();

namespace {

thread_local int device = 0;

}  // namespace

extern "C" {

int fake_device() { return device; }

int cudaMalloc(void** pointer, std::size_t bytes) {
  fake_make_context();
  *pointer = std::malloc(bytes);
  return *pointer != nullptr ? 0 : 2;
}
int cudaFree(void* pointer) {
  fake_make_context();
  std::free(pointer);
  return 0;
}
int cudaGetDeviceCount(int* count) { *count = 1; return 0; }
int cudaSetDevice(int wanted) {
  device = wanted;
  fake_make_context();
  return wanted == 0 ? 0 : 101;
}
int cudaGetDevice(int* out) { *out = device; return 0; }
int cudaDeviceGetAttribute(int* value, int, int which) { *value = 42; return which == 0 ? 0 : 101; }
int cudaGetDeviceProperties(void*, int which) { return which == 0 ? 0 : 101; }
int cudaDeviceCanAccessPeer(int* can, int, int) { *can = 0; return 101; }
int cudaDeviceEnablePeerAccess(int, unsigned) { return 101; }

struct Pointed { int type; int device; void* on_device; void* on_host; };
int cudaPointerGetAttributes(Pointed* told, const void* pointer) {
  *told = {2, 0, const_cast<void*>(pointer), nullptr};
  return 0;
}
}
