#include "runtime.h"

#include <dlfcn.h>

#include <initializer_list>

namespace residency {
namespace {

/// The runtime that is loaded already: torch brings its own, and another would not know its state.
void* loaded_runtime() {
  for (const char* name : {"libcudart.so.13", "libcudart.so.12"}) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_NOLOAD); library != nullptr) {
      return library;
    }
  }
  return nullptr;
}

}  // namespace

void* runtime_entry(const char* name) {
  static void* const library = loaded_runtime();
  return library != nullptr ? dlsym(library, name) : nullptr;
}

}  // namespace residency
