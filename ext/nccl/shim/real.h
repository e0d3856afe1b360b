// The NCCL that the process has loaded, past the functions that this library puts in front of it.

#pragma once

#include "abi.h"

namespace pruned::shim {

/// The real library's function of that name (they all have a second one, with a "p" before it); null without it.
void* real_entry(const char* profiled_name) noexcept;

/// A result of the real library, which from now on has the last word in ncclGetLastError() if it is an error.
Result passed(int result) noexcept;
/// What a call of a function comes to that the real library lacks, or that no library is there for.
Result lacking(const char* profiled_name) noexcept;

}  // namespace pruned::shim

/// Calls the real function, declared like the one that calls it.
#define SHIM_PASS(name, ...)                                                                   \
  [&]() -> ::pruned::shim::Result {                                                            \
    static const auto real = reinterpret_cast<decltype(&::name)>(                              \
        ::pruned::shim::real_entry("p" #name));                                                \
    return real != nullptr ? ::pruned::shim::passed(real(__VA_ARGS__))                         \
                           : ::pruned::shim::lacking("p" #name);                               \
  }()
