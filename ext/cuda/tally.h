// Where the time of moves goes: how often each kind of call of the driver was made, and what all of them took.

#pragma once

#include <chrono>
#include <cstdint>

#include "api.h"
#include "driver.h"

namespace residency {

/// One more call of a kind, in this process.
void tally(residency_call kind, std::chrono::nanoseconds took);

/// What `body` returns; the call that it makes is counted.
template <class Body>
auto tallied(residency_call kind, Body body) {
  const auto start = std::chrono::steady_clock::now();
  const auto result = body();
  tally(kind, std::chrono::steady_clock::now() - start);
  return result;
}

}  // namespace residency

/// The result of a call of the driver, which is counted.
#define RESIDENCY_TALLIED(kind, call) \
  ::residency::tallied(RESIDENCY_CALL_##kind, [&] { return ::residency::driver().call; })
#define RESIDENCY_CHECK_TALLIED(kind, call) ::residency::check(RESIDENCY_TALLIED(kind, call), #call)
