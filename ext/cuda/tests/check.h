// The least that a test program needs: checks that count, and say where and with which values they failed.

#pragma once

#include <atomic>
#include <iostream>
#include <source_location>
#include <string>

namespace residency::testing {

inline std::atomic<int> failures = 0;

inline void check(bool holds, const std::string& what, std::source_location where = std::source_location::current()) {
  if (!holds && ++failures <= 20) {
    std::cerr << where.file_name() << ":" << where.line() << ": " << what << "\n";
  }
}

template <class Left, class Right>
void same(Left left, Right right, const std::string& what, std::source_location at = std::source_location::current()) {
  check(left == right, what + ": " + std::to_string(left) + " is not " + std::to_string(right), at);
}

}  // namespace residency::testing
