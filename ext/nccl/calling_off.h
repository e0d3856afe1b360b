// The file of a directory that calls all its collectives off, and the reason: how it is laid out, written and read.
//
// All zeros is its first state. The first reason is kept. It is a header alone, as cuda/ reads the file too.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace pruned {

constexpr const char* kCallingOffFile = "abort";

struct CallingOff {
  std::uint32_t claimed;  // somebody writes the reason
  std::uint32_t said;     // it is written
  char reason[504];
};

inline void call_off(CallingOff& file, std::string_view reason) {
  if (std::atomic_ref(file.claimed).exchange(1) == 0) {
    std::copy_n(reason.begin(), std::min(reason.size(), sizeof file.reason - 1), file.reason);
  }
  std::atomic_ref(file.said).store(1, std::memory_order_release);  // also for one who died while writing
}

inline bool is_called_off(const CallingOff& file) {
  return std::atomic_ref(const_cast<std::uint32_t&>(file.said)).load(std::memory_order_acquire) != 0;
}

}  // namespace pruned
