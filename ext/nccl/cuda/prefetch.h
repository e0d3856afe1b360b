// The thread that reads payloads ahead: from files, through pinned memory, to the device, by its copy engines.
//
// Payloads come in the order of operations, as long as the pool has room; an operation's room is free once it has
// ended. One that is wanted and has not begun, because operations came in another order than planned, is read at once
// into memory of its own: a miss. One that is wanted before it is there is a stall.

#pragma once

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "check.h"
#include "memory.h"
#include "plan.h"
#include "pool.h"

namespace pruned::device {

/// What one entry reads, and where in its region each part begins.
struct Reading {
  struct Piece {
    Part part;
    std::int64_t at = 0;
  };
  std::int64_t bytes = 0;
  std::vector<Piece> pieces;
  std::int64_t head = -1, tail = -1, final = -1;  // -1: there is none
};

/// Lays out what an operation brings; `offsets`, by partner: where its payload begins, -1 if it has none.
Reading reading_of(const PlannedOp& op, std::vector<std::int64_t>* offsets = nullptr);

class Prefetch {
 public:
  /// `readings` by entry. All memory is taken here, on the current device.
  Prefetch(std::vector<Reading> readings, std::int64_t pool_bytes, int device, std::int64_t* shown_counts);
  ~Prefetch();

  void start();
  void stop();

  Payload* payloads() const { return reinterpret_cast<Payload*>(payloads_.get()); }
  std::uint64_t* ended() const { return reinterpret_cast<std::uint64_t*>(ended_.get()); }
  std::uint32_t* looked() const { return reinterpret_cast<std::uint32_t*>(looked_.get()); }
  std::int64_t pool_bytes() const { return pool_.bytes(); }
  std::int64_t hits() const { return counts_[0]; }
  std::int64_t misses() const { return counts_[1]; }
  std::int64_t stalls() const { return counts_[2]; }
  /// What went wrong in the thread; empty: nothing.
  std::string trouble() const;

 private:
  void run();
  bool advance();
  bool read_ahead();
  bool look();
  bool over(std::int64_t entry) const;
  void load(std::int64_t entry, std::byte* region);
  void copy(const Part& part, std::byte* to);

  std::vector<Reading> readings_;
  int device_;
  std::int64_t* shown_;  // of the board: hits, misses, stalls; null: nobody looks
  RingPool pool_;
  DeviceMemory room_, payloads_;
  PinnedMemory staging_, table_, ended_, looked_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t copied_[2] = {};
  int turn_ = 0;
  std::int64_t next_ = 0;         // the first that has not begun
  std::int64_t uncounted_ = 0;    // the first that nobody has wanted yet
  std::vector<bool> begun_, counted_;
  std::vector<std::byte*> apart_;
  std::atomic<std::int64_t> counts_[3] = {};
  std::atomic<bool> stopped_ = false;
  mutable std::mutex mutex_;
  std::string trouble_;
  std::thread thread_;
};

}  // namespace pruned::device
