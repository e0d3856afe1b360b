// Operations whose payloads lie in one file, read ahead over the fake CUDA; and what a kernel does that wants them.

#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../../tests/check.h"
#include "../../tests/harness.h"
#include "../prefetch.h"

namespace pruned::device::testing {

inline void until(const std::function<bool()>& holds) {
  while (!holds()) {
    std::this_thread::yield();
  }
}

/// Operations that bring `head` and `final` of so many bytes each, all in one file; and what a kernel does.
class Scene {
 public:
  /// They are of so many groups, by turns.
  explicit Scene(const std::vector<std::int64_t>& sizes, std::size_t groups = 1)
      : path_(folder_.path() / "payloads"), sizes_(sizes) {
    std::ofstream file(path_, std::ios::binary);
    for (std::size_t entry = 0; entry < sizes.size(); ++entry) {
      const Part head = write(file, static_cast<std::int64_t>(entry), 0);
      const Part final = write(file, static_cast<std::int64_t>(entry), 1);
      readings_.push_back(reading_of({.planned = {}, .head = head, .tail = {}, .final = final, .partners = {}}));
      readings_.back().group = &sizes_[entry % groups];
    }
  }

  void start(std::int64_t pool, int readers, int device = 0) {
    prefetch_ = std::make_unique<Prefetch>(readings_, pool, device, readers, shown);
    prefetch_->start();
  }
  void stop() { prefetch_.reset(); }
  Prefetch& prefetch() { return *prefetch_; }
  std::int64_t count() const { return static_cast<std::int64_t>(sizes_.size()); }
  const std::filesystem::path& path() const { return path_; }

  bool ready(std::int64_t entry) const {
    return std::atomic_ref(prefetch_->payloads()[entry].ready).load(std::memory_order_acquire) != 0;
  }
  /// A kernel looks whether it is there; returns what it found.
  bool look(std::int64_t entry) const {
    const bool there = ready(entry);
    std::atomic_ref(prefetch_->looked()[entry]).store(there ? 1 : 2, std::memory_order_release);
    return there;
  }
  /// Whether it came by a detour.
  bool came_round(std::int64_t entry) const {
    return std::atomic_ref(const_cast<Payload*>(prefetch_->detours())[entry].ready).load(std::memory_order_acquire) != 0;
  }
  void end(std::int64_t entry) const {
    std::atomic_ref(prefetch_->ended()[entry]).store(1, std::memory_order_release);
  }
  /// Whether both parts of one that is there are what was written.
  bool is_right(std::int64_t entry) const { return is_right(entry, prefetch_->payloads()[entry]); }
  bool is_right(std::int64_t entry, const Payload& payload) const {
    for (std::int64_t i = 0; i < sizes_[entry]; ++i) {
      if (payload.head[i] != byte(entry, 0, i) || payload.final[i] != byte(entry, 1, i)) {
        return false;
      }
    }
    return true;
  }
  /// Until it holds, or can no longer as something went wrong.
  void await(const std::function<bool()>& holds) const {
    until([&] { return holds() || !prefetch_->trouble().empty(); });
    CHECK(prefetch_->trouble().empty(), prefetch_->trouble());
  }
  /// Does the operations one by one. On a busy machine threads may seem to be kept, and any may come by a detour.
  void carry_out(std::int64_t first, std::int64_t last) const {
    for (std::int64_t entry = first; entry < last; ++entry) {
      look(entry);
      await([&] { return ready(entry) || came_round(entry); });
      const Payload* payloads = ready(entry) ? prefetch_->payloads() : prefetch_->detours();
      CHECK(is_right(entry, payloads[entry]), "entry " + std::to_string(entry));
      end(entry);
    }
  }
  std::int64_t told() const { return prefetch_->hits() + prefetch_->misses() + prefetch_->stalls(); }

  std::int64_t shown[3] = {};

 private:
  static std::byte byte(std::int64_t entry, int which, std::int64_t i) {
    return static_cast<std::byte>((i >> 12) * 31 + i + entry * 7 + which);
  }
  Part write(std::ofstream& file, std::int64_t entry, int which) {
    const std::int64_t size = sizes_[entry];
    const Part result{size == 0 ? "" : path_.string(), written_, size};
    std::string bytes(static_cast<std::size_t>(size), '\0');
    for (std::int64_t i = 0; i < size; ++i) {
      bytes[i] = static_cast<char>(byte(entry, which, i));
    }
    file.write(bytes.data(), size);
    written_ += size;
    return result;
  }

  pruned::testing::TemporaryDirectory folder_;
  std::filesystem::path path_;
  std::vector<std::int64_t> sizes_;
  std::int64_t written_ = 0;
  std::vector<Reading> readings_;
  std::unique_ptr<Prefetch> prefetch_;
};

/// Bytes that take several readings.
constexpr std::int64_t kLong = 2 * kPieceBytes + 5;

}  // namespace pruned::device::testing
