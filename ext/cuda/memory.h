// The device memory of this process: its segments, and where they are.

#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "address_space.h"
#include "api.h"
#include "copies.h"
#include "image.h"
#include "pool.h"
#include "segment.h"

namespace residency {

/// Smaller requests are left to the runtime, which packs them; torch asks for 2 MiB and more.
constexpr std::size_t kLeast = std::size_t{2} << 20;

class Memory {
 public:
  /// Memory of the current context, as cudaMalloc gives it; 0 if the device has none left. Throws Failure.
  DevicePointer allocate(std::size_t bytes);
  /// Whether the address was one of ours; what used it has ended then, as after cudaFree.
  bool free(DevicePointer start);
  /// Whether a request of the current context is one for us.
  bool takes(std::size_t bytes);

  void open(const char* pool, std::uint32_t slots, std::uint32_t owner);
  residency_moved out();
  residency_moved in(std::uint32_t patience_ms);
  residency_moved spill(const char* path);
  residency_figures figures();

  std::atomic<std::uint64_t> passed{0};

 private:
  using Segments = std::map<DevicePointer, std::unique_ptr<Segment>>;

  void enter() const;
  /// Give each segment its place in the host copy; returns the bytes of all.
  std::size_t lay_out();
  CopyTimes copy_out();
  CopyTimes copy_in(const std::vector<Segment*>& away, std::size_t needed, std::chrono::milliseconds patience);

  std::mutex lock_;
  AddressSpace addresses_;
  Segments segments_;
  Context context_ = nullptr;
  int device_ = 0;
  std::size_t granularity_ = 0;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Image> image_;  // while the memory is out
  std::vector<Event> events_;     // of moves before, for those to come
};

/// The memory of this process.
Memory& memory();

}  // namespace residency
