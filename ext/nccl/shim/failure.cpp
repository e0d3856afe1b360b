#include "failure.h"

#include <atomic>
#include <mutex>

namespace pruned::shim {
namespace {

std::mutex guard;
std::string text;
std::atomic<bool> noted = false;  // read on every error of the real library, mostly in vain

}  // namespace

Result guarded(const std::function<Result()>& body) noexcept {
  try {
    return body();
  } catch (const Failure& failure) {
    note_failure(failure.what());
    return failure.result;
  } catch (const std::exception& error) {
    note_failure(error.what());
    return kInternalError;
  }
}

void note_failure(const std::string& what) noexcept {
  const std::lock_guard lock(guard);
  text = what;
  noted = true;
}

void forget_failure() noexcept { noted = false; }

const char* last_failure() noexcept {
  if (!noted) {
    return nullptr;
  }
  static thread_local std::string copy;
  const std::lock_guard lock(guard);
  copy = text;
  return copy.c_str();
}

}  // namespace pruned::shim
