#include "pool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <thread>

#include "driver.h"
#include "errors.h"
#include "tally.h"

namespace residency {
namespace {

constexpr std::size_t kHeader = std::size_t{2} << 20;  // owners; a huge page, so that slots can be of huge pages too
constexpr unsigned kPortable = 1;
/// That get memory from the kernel, which clears it: a quarter of a second a GiB for one.
constexpr std::size_t kThreads = 4;
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

[[noreturn]] void refuse(const char* what, const std::filesystem::path& file) {
  throw std::system_error(errno, std::system_category(), std::string("cannot ") + what + " the host pool " + file.string());
}

int open_sized(const std::filesystem::path& file, std::size_t bytes) {
  const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  struct stat status{};
  if (descriptor < 0 || fstat(descriptor, &status) != 0) {
    refuse("open", file);
  }
  if (status.st_size < static_cast<off_t>(bytes) && ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
    close(descriptor);
    refuse("size", file);
  }
  return descriptor;
}

}  // namespace

Pool::Pool(const std::filesystem::path& file, std::uint32_t slots, std::uint32_t owner)
    : owner_(owner), pinned_(slots, false), bytes_(kHeader + slots * kSlot) {
  if (owner == 0 || slots == 0 || slots > kHeader / sizeof(std::uint32_t)) {
    throw Failure(RESIDENCY_INVALID, "a host pool has 1 to 524,288 slots, and owners from 1");
  }
  const int descriptor = open_sized(file, bytes_);
  void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  if (mapped == MAP_FAILED) {
    refuse("map", file);
  }
  memory_ = static_cast<std::byte*>(mapped);
  madvise(memory_, bytes_, MADV_HUGEPAGE);  // pins in a fraction of the time, where the kernel has them for files
}

Pool::~Pool() {
  for (std::uint32_t slot = 0; slot < slots(); ++slot) {
    if (pinned_[slot]) {
      driver().cuMemHostUnregister(at(slot));
    }
  }
  munmap(memory_, bytes_);
}

std::atomic_ref<std::uint32_t> Pool::owner_of(std::uint32_t slot) const {
  return std::atomic_ref(reinterpret_cast<std::uint32_t*>(memory_)[slot]);
}

std::vector<std::uint32_t> Pool::claim(std::size_t count) {
  std::vector<std::uint32_t> claimed;
  claimed.reserve(count);
  claim_where(true, count, claimed);
  claim_where(false, count, claimed);
  if (claimed.size() == count) {
    return claimed;
  }
  const std::size_t had = claimed.size();
  for (const auto slot : claimed) {
    release(slot);
  }
  throw Failure(RESIDENCY_POOL_FULL, "the host pool has " + std::to_string(had) + " of " + std::to_string(slots()) +
                                         " slots of 32 MiB free, " + std::to_string(count) + " are needed");
}

void Pool::claim_where(bool pinned, std::size_t count, std::vector<std::uint32_t>& claimed) {
  for (std::uint32_t slot = 0; slot < slots() && claimed.size() < count; ++slot) {
    std::uint32_t nobody = 0;
    if (pinned_[slot] == pinned && owner_of(slot).compare_exchange_strong(nobody, owner_)) {
      claimed.push_back(slot);
    }
  }
}

void Pool::release(std::uint32_t slot) { owner_of(slot).store(0); }

std::byte* Pool::at(std::uint32_t slot) const { return memory_ + kHeader + slot * kSlot; }

void Pool::populate(const std::vector<std::uint32_t>& claimed) const {
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t mine = next++; mine < claimed.size(); mine = next++) {
      if (!pinned_[claimed[mine]]) {
        madvise(at(claimed[mine]), kSlot, MADV_POPULATE_WRITE);  // where a kernel cannot, pinning does it
      }
    }
  };
  std::vector<std::jthread> threads;
  for (std::size_t begun = 1; begun < std::min(kThreads, claimed.size()); ++begun) {
    threads.emplace_back(work);
  }
  work();
}

std::byte* Pool::pin(std::uint32_t slot) {
  std::byte* memory = at(slot);
  if (!pinned_[slot]) {
    RESIDENCY_CHECK_TALLIED(PIN, cuMemHostRegister(memory, kSlot, kPortable));
    pinned_[slot] = true;
  }
  return memory;
}

}  // namespace residency
