// A way to kernels for payloads that needs no call of CUDA: through pinned memory, where kernels read them themselves.
//
// While a call of the program holds the driver until the device is idle (driver_calls.h), no copy can be put on a stream,
// and a kernel that waits for one would keep the device from ever being idle. What kernels wait for then comes this way:
// slower, but it comes.

#pragma once

#include <vector>

#include "memory.h"
#include "pool.h"
#include "reading.h"

namespace pruned::device {

struct Payload;

class Detour {
 public:
  /// `readings`, `ended` and `looked` by entry, as in prefetch.h. Takes memory for the largest reading.
  Detour(const std::vector<Reading>& readings, std::int64_t largest, const std::uint64_t* ended,
         const std::uint32_t* looked);

  /// By entry, in the host's memory: where what came this way lies.
  const Payload* payloads() const { return reinterpret_cast<const Payload*>(table_.get()); }
  /// Reads what kernels wait for, as far as there is room. Calls nothing of CUDA. Throws Failure.
  void bring();

 private:
  std::int64_t entries() const { return static_cast<std::int64_t>(readings_.size()); }
  bool over(std::int64_t entry) const;
  bool wanted(std::int64_t entry) const;
  void read(std::int64_t entry, std::byte* to);

  const std::vector<Reading>& readings_;
  const std::uint64_t* ended_;
  const std::uint32_t* looked_;
  RingPool pool_;
  PinnedMemory room_, table_;
  std::int64_t first_ = 0;  // all before it are over
};

}  // namespace pruned::device
