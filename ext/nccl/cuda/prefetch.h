// Payloads that are read ahead: from files, through pinned memory, to a pool on the device.
//
// They come in the order of operations, as long as the pool has room; an operation's room is free once it has ended. A
// thread says what is read next, and looks who has come for what; others read (payload_reader.h). A payload that is
// wanted and that nobody has begun to read, because operations came in another order than planned, is read before all
// others: a miss. If it has no room in the pool it gets memory of its own. One that is wanted while it is read is a
// stall. While a call of the program holds the driver, what is waited for comes by a detour (detour.h).

#pragma once

#include <string>
#include <thread>
#include <vector>

#include "detour.h"
#include "load_queue.h"
#include "payload_reader.h"
#include "pool.h"

namespace pruned::device {

class Prefetch {
 public:
  /// `readings` by entry. All memory is taken here, on the current device.
  Prefetch(std::vector<Reading> readings, std::int64_t pool_bytes, int device, int readers, std::int64_t* shown_counts);
  ~Prefetch();

  void start();
  void stop();

  Payload* payloads() const { return reinterpret_cast<Payload*>(payloads_.get()); }
  std::uint64_t* ended() const { return reinterpret_cast<std::uint64_t*>(ended_.get()); }
  std::uint32_t* looked() const { return reinterpret_cast<std::uint32_t*>(looked_.get()); }
  /// By entry: what came by a detour, null if nothing can.
  const Payload* detours() const { return detour_ == nullptr ? nullptr : detour_->payloads(); }
  std::int64_t pool_bytes() const { return pool_.bytes(); }
  std::int64_t hits() const { return counts_[kHit]; }
  std::int64_t misses() const { return counts_[kMiss]; }
  std::int64_t stalls() const { return counts_[kStall]; }
  /// What went wrong in a thread first; empty: nothing.
  std::string trouble() const;

 private:
  enum Outcome { kHit, kMiss, kStall };  // as on the board

  struct Apart {
    std::int64_t entry;
    std::byte* data;
  };

  std::int64_t entries() const { return static_cast<std::int64_t>(readings_.size()); }
  void run(const std::function<void()>& work);
  void run_with_device(const std::function<void()>& work);
  void keep_ahead();
  void keep_detour();
  bool read_ahead();
  void give_back();
  bool over(std::int64_t entry) const;
  bool look();
  bool look_from(std::int64_t first, std::int64_t last);
  Outcome outcome(std::int64_t entry, bool was_there);
  bool came_round(std::int64_t entry) const;
  void read_apart(Load& load);
  void publish(const Load& load);

  std::vector<Reading> readings_;
  int device_;
  std::int64_t* shown_;  // of the board: hits, misses, stalls; null: nobody looks
  RingPool pool_;
  DeviceMemory room_, payloads_;
  PinnedMemory table_, ended_, looked_;
  std::unique_ptr<Detour> detour_;
  Stream stream_;
  DriverCalls calls_;
  LoadQueue queue_;
  std::vector<Load> loads_;      // by entry
  std::int64_t next_ = 0;        // the first that has no room yet
  std::int64_t uncounted_ = 0;   // the first that nobody has wanted yet
  std::int64_t swept_ = 0;       // how far those beyond were looked at
  std::vector<bool> counted_;
  std::vector<Apart> apart_;
  std::atomic<std::int64_t> counts_[3] = {};
  std::atomic<bool> stopped_ = false;
  mutable std::mutex mutex_;
  std::string trouble_;
  std::vector<std::unique_ptr<PayloadReader>> readers_;
  std::vector<std::thread> threads_;
};

}  // namespace pruned::device
