// What goes wrong in a call on a communicator of ours: a result for the caller and a text for ncclGetLastError().

#pragma once

#include <functional>
#include <stdexcept>
#include <string>

#include "abi.h"

namespace pruned::shim {

struct Failure : std::runtime_error {
  Failure(Result result, const std::string& text) : std::runtime_error(text), result(result) {}

  Result result;
};

/// Runs it; what it throws is noted and its result returned.
Result guarded(const std::function<Result()>& body) noexcept;

void note_failure(const std::string& text) noexcept;
/// Somebody else has failed since.
void forget_failure() noexcept;
/// The last text noted, by any thread, that nobody forgot; null if there is none. It stays valid in this thread until
/// the thread asks again.
const char* last_failure() noexcept;

}  // namespace pruned::shim
