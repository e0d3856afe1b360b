// Memory of a device, memory of the host that a device sees, and files that both map.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace pruned::device {

/// Makes a device the current one for as long as it lives.
class OnDevice {
 public:
  explicit OnDevice(int device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
};

/// A thread that works beside the program must be free to while the program captures a graph.
void ignore_captures();

struct FreeDevice {
  void operator()(std::byte* data) const;
};
using DeviceMemory = std::unique_ptr<std::byte, FreeDevice>;

/// Zeroed memory of the current device; null for no bytes.
DeviceMemory device_memory(std::int64_t bytes);
/// Memory that nobody uses: nothing is written to it, and nothing waited for.
DeviceMemory reserved_memory(std::int64_t bytes);

struct FreePinned {
  void operator()(std::byte* data) const;
};
/// Zeroed, pinned, and seen by all devices at the same address.
using PinnedMemory = std::unique_ptr<std::byte, FreePinned>;
PinnedMemory pinned_memory(std::int64_t bytes);

/// A file of int64 that host and devices map.
class SharedFile {
 public:
  explicit SharedFile(const std::string& path);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  std::int64_t* host() const { return host_; }
  std::int64_t* device() const { return device_; }
  std::int64_t words() const { return static_cast<std::int64_t>(bytes_ / sizeof(std::int64_t)); }

 private:
  std::int64_t* host_ = nullptr;
  std::int64_t* device_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace pruned::device
