// The host pool: pinned memory in slots of 32 MiB, in one file that all ranks of the host map.
//
// All zeros is an empty pool, so nobody has to make it first. A slot is claimed by writing its owner's number where 0
// stood. Each process pins a slot when it first uses it, and keeps it pinned; it claims those first.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace residency {

constexpr std::size_t kSlot = std::size_t{32} << 20;

class Pool {
 public:
  /// Throws Failure or std::system_error.
  Pool(const std::filesystem::path& file, std::uint32_t slots, std::uint32_t owner);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Claim so many slots, or none and throw Failure.
  std::vector<std::uint32_t> claim(std::size_t count);
  void release(std::uint32_t slot);
  std::uint32_t slots() const { return static_cast<std::uint32_t>(pinned_.size()); }

  /// Get claimed slots the memory of the host that they do not have yet; some threads share that.
  void populate(const std::vector<std::uint32_t>& claimed) const;
  /// The memory of a claimed slot, pinned for the current context.
  std::byte* pin(std::uint32_t slot);

 private:
  std::byte* at(std::uint32_t slot) const;
  std::atomic_ref<std::uint32_t> owner_of(std::uint32_t slot) const;
  void claim_where(bool pinned, std::size_t count, std::vector<std::uint32_t>& claimed);

  std::uint32_t owner_;
  std::vector<bool> pinned_;
  std::size_t bytes_;
  std::byte* memory_ = nullptr;  // owners first, slots after them
};

}  // namespace residency
