// The thread that looks after what kernels cannot say themselves, and what the engine tells of itself.

#include <chrono>
#include <fstream>

#include "device_engine.h"

namespace pruned::device {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(5);
constexpr int kLooksBetweenCalibrations = 200;  // a second: the two clocks drift apart by some us in it

}  // namespace

void DeviceEngine::keep_watch() {
  try {
    ignore_captures();
    for (int look = 1; !given_up_; ++look) {
      std::this_thread::sleep_for(kBetweenLooks);
      look_for_trouble();
      if (look % kLooksBetweenCalibrations == 0) {
        clock_->calibrate();
        if (arc_clock_ != nullptr) {
          arc_clock_->calibrate();
        }
      }
    }
  } catch (const std::exception& error) {
    trouble_.report({.kind = Verdict::kFailed, .text = error.what()});
    abort();
  }
}

void DeviceEngine::look_for_trouble() {
  if (const std::string trouble = prefetch_->trouble(); !trouble.empty()) {
    trouble_.report({.kind = Verdict::kFailed, .text = trouble});
    abort();
  }
  if (is_called_off()) {
    abort();
  }
}

/// Whether somebody has stopped all parties of the directory: ../directory.h's flag, which is not there before.
bool DeviceEngine::is_called_off() const {
  std::uint32_t flag = 0;
  std::ifstream file(around_.directory + "/abort", std::ios::binary);
  return file.read(reinterpret_cast<char*>(&flag), sizeof flag) && flag != 0;
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

void DeviceEngine::abort() {
  given_up_ = true;
  for (const auto& [name, group] : groups_) {
    group->abort();
  }
  trouble_.report({.kind = Verdict::kAborted, .text = "aborted"});
}

}  // namespace pruned::device
