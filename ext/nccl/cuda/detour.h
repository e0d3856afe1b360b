// A way to kernels for payloads that needs no call of CUDA: through pinned memory, where kernels read them themselves.
//
// While a call of the program holds the driver until the device is idle (driver_calls.h), no copy can be put on a stream,
// and a kernel that waits for one would keep the device from ever being idle. What kernels wait for then comes this way:
// slower, but it comes. Each group has room for its largest payload, as one of its operations waits at a time: what one
// group's operation waits for, in whatever process, never has the room that another one's needs.

#pragma once

#include <map>
#include <vector>

#include "memory.h"
#include "reading.h"

namespace pruned::device {

struct Payload;

class Detour {
 public:
  /// `readings`, `ended` and `looked` by entry, as in prefetch.h. Takes all memory here.
  Detour(const std::vector<Reading>& readings, const std::uint64_t* ended, const std::uint32_t* looked);

  /// By entry, in the host's memory: where what came this way lies.
  const Payload* payloads() const { return reinterpret_cast<const Payload*>(table_.get()); }
  bool has(std::int64_t entry) const;
  /// Reads one that a kernel waits for; whether there was one. Calls nothing of CUDA. Throws Failure.
  bool bring();

 private:
  struct Room {
    PinnedMemory data;
    std::int64_t entry = -1;  // that had it last
  };

  std::int64_t entries() const { return static_cast<std::int64_t>(readings_.size()); }
  bool over(std::int64_t entry) const;
  bool wanted(std::int64_t entry) const;
  void read(std::int64_t entry, std::byte* to);

  const std::vector<Reading>& readings_;
  const std::uint64_t* ended_;
  const std::uint32_t* looked_;
  std::map<const void*, Room> rooms_;  // by group
  PinnedMemory table_;
  std::int64_t first_ = 0;  // all before it are over
};

}  // namespace pruned::device
