// The least that a test program needs: checks that count, and say where and with which values they failed.

#pragma once

#include <atomic>
#include <iostream>
#include <source_location>
#include <string>

namespace pruned::testing {

inline std::atomic<int> failures = 0;
inline std::atomic<long> checks = 0;

inline void pass() { ++checks; }

inline void fail(const std::string& what, std::source_location where = std::source_location::current()) {
  ++checks;
  if (++failures <= 20) {
    std::cerr << where.file_name() << ":" << where.line() << ": " << what << "\n";
  }
}

/// A macro, so that the text is made only where it is wanted.
#define CHECK(holds, what) ((holds) ? ::pruned::testing::pass() : ::pruned::testing::fail(what))

template <class E, class Body>
void check_throws(Body body, const std::string& what, std::source_location where = std::source_location::current()) {
  try {
    body();
  } catch (const E&) {
    return pass();
  }
  fail(what + ": nothing was thrown", where);
}

}  // namespace pruned::testing
