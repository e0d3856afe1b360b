// The CUDA runtime that the program has loaded, past the functions that this library puts in front of it.

#pragma once

#include <cstddef>

namespace residency {

constexpr int kSuccess = 0;  // cudaSuccess

/// The runtime's own function of that name; null where no runtime is loaded, or one that lacks it.
void* runtime_entry(const char* name);

}  // namespace residency

/// Calls the runtime's own function, declared like the one that calls it; 36, "call was not in the runtime", without it.
#define RESIDENCY_RUNTIME(name, ...)                                                                  \
  [&] {                                                                                               \
    static const auto entry = reinterpret_cast<decltype(&::name)>(::residency::runtime_entry(#name)); \
    return entry != nullptr ? entry(__VA_ARGS__) : 36;                                                \
  }()
