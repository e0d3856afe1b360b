// The first thing that went wrong in this process, for all who ask.

#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "engine.h"

namespace pruned::device {

struct Report {
  Verdict kind = Verdict::kFine;
  std::string group = {};
  std::int64_t number = -1;
  std::string text = {};
};

class Trouble {
 public:
  /// Only the first one is kept.
  void report(Report report) {
    const std::lock_guard lock(mutex_);
    if (report_.kind == Verdict::kFine) {
      report_ = std::move(report);
      kind_ = report_.kind;
    }
  }
  Verdict kind() const { return kind_; }
  Report first() const {
    const std::lock_guard lock(mutex_);
    return report_;
  }

 private:
  mutable std::mutex mutex_;
  Report report_;
  std::atomic<Verdict> kind_ = Verdict::kFine;
};

}  // namespace pruned::device
