#include "real.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "failure.h"

namespace pruned::shim {
namespace {

/// The path of the first libnccl that is loaded; "" if there is none.
std::string loaded_path() {
  std::string found;
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* into) {
        const char* slash = std::strrchr(object->dlpi_name, '/');
        const char* file = slash != nullptr ? slash + 1 : object->dlpi_name;
        if (std::strncmp(file, "libnccl.so", 10) != 0) {
          return 0;
        }
        *static_cast<std::string*>(into) = object->dlpi_name;
        return 1;
      },
      &found);
  return found;
}

/// One that is loaded must not be loaded again: it would be a second NCCL, with communicators of its own.
void* open_real() {
  const std::string loaded = loaded_path();
  if (!loaded.empty()) {
    return dlopen(loaded.c_str(), RTLD_NOW | RTLD_NOLOAD);
  }
  const char* named = std::getenv("PRISM_NCCL");
  return dlopen(named != nullptr ? named : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

void* real_entry(const char* profiled_name) noexcept {
  static void* const library = open_real();
  return library != nullptr ? dlsym(library, profiled_name) : nullptr;
}

Result passed(int result) noexcept {
  if (result != kSuccess && result != kInProgress) {
    forget_failure();
  }
  return static_cast<Result>(result);
}

Result lacking(const char* profiled_name) noexcept {
  note_failure(std::string("no libnccl.so.2 with ") + profiled_name +
               "() is loaded: install the NCCL that this torch was built for, or name it by PRISM_NCCL");
  return kSystemError;
}

}  // namespace pruned::shim
