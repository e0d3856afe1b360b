// The threads that look after what kernels cannot say themselves, and what the engine tells of itself.

#include <chrono>
#include <fstream>

#include "../calling_off.h"
#include "device_engine.h"

namespace pruned::device {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(5);
// Answers of a second are remembered: the two clocks drift apart by some us in it.
constexpr int kLooksBetweenQuestions = 12;

}  // namespace

/// Calls nothing of CUDA: while a call of the program holds the driver, kernels must be told that all is off.
void DeviceEngine::keep_watch() {
  try {
    while (!given_up_) {
      std::this_thread::sleep_for(kBetweenLooks);
      look_for_trouble();
      clock_->let_go();
      if (arc_clock_ != nullptr) {
        arc_clock_->let_go();
      }
    }
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

void DeviceEngine::keep_clocks() {
  try {
    ignore_captures();
    for (int look = 1; !given_up_; ++look) {
      std::this_thread::sleep_for(kBetweenLooks);
      if (look % kLooksBetweenQuestions == 0) {
        clock_->ask();
        if (arc_clock_ != nullptr) {
          arc_clock_->ask();
        }
      }
    }
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

void DeviceEngine::look_for_trouble() {
  if (const std::string trouble = prefetch_->trouble(); !trouble.empty()) {
    fail(trouble);
  }
  look_for_call();
}

void DeviceEngine::fail(const std::string& text) {
  trouble_.report({.kind = Verdict::kFailed, .text = text});
  abort(text);
}

/// Whether somebody has called off all that goes on in the directory; before, the file need not be there.
void DeviceEngine::look_for_call() {
  CallingOff call{};
  std::ifstream file(around_.directory + "/" + kCallingOffFile, std::ios::binary);
  if (file.read(reinterpret_cast<char*>(&call), sizeof call) && is_called_off(call)) {
    abort(call.reason);
  }
}

Report DeviceEngine::state() {
  const auto* flags = reinterpret_cast<const volatile std::uint32_t*>(flags_.get());
  if (flags != nullptr && flags[0] != 0) {
    trouble_.report({.kind = Verdict::kMismatch,
                     .number = static_cast<std::int64_t>(flags[0]) - 1,
                     .text = "a graph that is launched again does not do what the capture did"});
  }
  return trouble_.first();
}

prism_device_figures DeviceEngine::figures() const {
  prism_device_figures figures{};
  for (const auto& [name, group] : groups_) {
    figures.fifos += group->fifo_bytes();
    figures.reserved += group->reserved();
  }
  figures.stash = stash_bytes_;
  figures.start_seconds = start_seconds_;
  if (prefetch_ != nullptr) {
    figures.pool = prefetch_->pool_bytes();
    figures.hits = prefetch_->hits();
    figures.misses = prefetch_->misses();
    figures.stalls = prefetch_->stalls();
  }
  return figures;
}

void DeviceEngine::abort(const std::string& reason) {
  trouble_.report({.kind = Verdict::kAborted, .text = reason});
  given_up_ = true;
  for (const auto& [name, group] : groups_) {
    group->abort();
  }
}

}  // namespace pruned::device
