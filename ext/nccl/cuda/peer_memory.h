// Device memory of another sandbox process: its owner leaves a file that opens it.

#pragma once

#include <atomic>
#include <cstddef>
#include <string>

namespace pruned::device {

/// Leaves the file; `data` is the beginning of an allocation.
void offer_memory(const std::string& path, std::byte* data);

/// Memory of another process, mapped here as long as this lives.
class PeerMemory {
 public:
  /// Waits for the file, for as long as it takes. Throws Failure if `given_up` becomes true.
  PeerMemory(const std::string& path, const std::atomic<bool>& given_up);
  ~PeerMemory();
  PeerMemory(PeerMemory&& other) noexcept : data_(other.data_) { other.data_ = nullptr; }
  PeerMemory& operator=(PeerMemory&&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

}  // namespace pruned::device
