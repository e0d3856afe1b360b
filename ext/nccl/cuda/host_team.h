// A team of one thread of a CPU.

#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "moves.h"

namespace pruned::device {

class HostTeam {
 public:
  /// `aborted`: as job.h's Shown has it; null: nobody aborts.
  explicit HostTeam(const volatile std::uint32_t* aborted) : aborted_(const_cast<std::uint32_t*>(aborted)) {}

  bool waits() const { return true; }
  bool leads() const { return true; }
  static constexpr int kCount = 1;
  int index() const { return 0; }
  bool stopped() const {
    return aborted_ != nullptr && std::atomic_ref(*aborted_).load(std::memory_order_relaxed) != 0;
  }

  static std::uint64_t seen(const std::uint64_t* count) { return load(count); }
  void look(unsigned) const { std::this_thread::yield(); }

  void spin(Watch& watch, std::uint64_t target) const {
    while (watch.seen < target && !stopped()) {
      watch.seen = load(watch.count);
      std::this_thread::yield();
    }
  }

  void spin(Watch& one, std::uint64_t target, Watch& other, std::uint64_t other_target) const {
    spin(one, target);
    spin(other, other_target);
  }

  std::int64_t now() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  void wait_until(std::int64_t time) const {
    while (now() < time && !stopped()) {
      std::this_thread::yield();
    }
  }

  bool meet() const { return !stopped(); }
  void settle() const {}
  void gather() const {}
  Move* moves() { return moves_; }
  bool post(const Notes& notes) const {
    for (const Note& note : {notes.head, notes.tail, notes.progress}) {
      if (note.count != nullptr) {
        std::atomic_ref(*note.count).store(note.value, std::memory_order_release);
      }
    }
    return !stopped();
  }

  static std::uint64_t load(const std::uint64_t* count) {
    return std::atomic_ref(*const_cast<std::uint64_t*>(count)).load(std::memory_order_acquire);
  }

  static std::int64_t load_shown(const std::int64_t* word) {
    return std::atomic_ref(*const_cast<std::int64_t*>(word)).load(std::memory_order_acquire);
  }

  template <class T>
  static T add(T* cell, T amount) {
    return std::atomic_ref(*cell).fetch_add(amount);
  }
  static std::uint64_t take(std::uint64_t* cell) { return std::atomic_ref(*cell).exchange(0); }
  template <class T>
  static void show(T* word, T value) {
    std::atomic_ref(*word).store(value, std::memory_order_relaxed);
  }
  template <class T>
  static void show_last(T* word, T value) {
    std::atomic_ref(*word).store(value, std::memory_order_release);
  }

  /// Data and mark are read, and written, as one word: each half of a line stands for itself.
  static Line load_line(const Line* line) {
    auto* words = reinterpret_cast<std::uint64_t*>(const_cast<Line*>(line));
    const std::uint64_t halves[2] = {std::atomic_ref(words[0]).load(std::memory_order_acquire),
                                     std::atomic_ref(words[1]).load(std::memory_order_acquire)};
    Line result;
    std::memcpy(&result, halves, sizeof result);
    return result;
  }
  static void store_line(Line* line, const Line& value) {
    std::uint64_t halves[2];
    std::memcpy(halves, &value, sizeof value);
    auto* words = reinterpret_cast<std::uint64_t*>(line);
    std::atomic_ref(words[0]).store(halves[0], std::memory_order_release);
    std::atomic_ref(words[1]).store(halves[1], std::memory_order_release);
  }

 private:
  std::uint32_t* aborted_;
  Move moves_[kBatch];
};

}  // namespace pruned::device
