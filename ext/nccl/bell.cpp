#include "bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

#include "clock.h"

namespace pruned {
namespace {

/// Shared between processes, so not one of the FUTEX_PRIVATE kind.
long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Bell::Bell(Directory& directory, const std::string& name) : mapping_(directory.open(name, sizeof(Words))) {}

void Bell::ring() {
  Words& words = this->words();
  words.rings.fetch_add(1, std::memory_order_seq_cst);
  // Whoever notes its sleep after this load has its count compared in the kernel, and finds the ring.
  if (words.sleepers.load(std::memory_order_seq_cst) != 0) {
    futex(words.rings, FUTEX_WAKE, INT_MAX, nullptr);
  }
}

bool Bell::watch(std::uint32_t seen, std::int64_t deadline) const {
  do {
    for (int i = 0; i < 16; ++i) {
      if (rings() != seen) {
        return true;
      }
      pause_briefly();
    }
  } while (now() < deadline);
  return rings() != seen;
}

bool Bell::sleep(std::uint32_t seen, std::int64_t duration) {
  constexpr std::int64_t second = 1'000'000'000;
  const timespec timeout{.tv_sec = duration / second, .tv_nsec = static_cast<long>(duration % second)};
  Words& words = this->words();
  words.sleepers.fetch_add(1, std::memory_order_seq_cst);
  const bool interrupted = futex(words.rings, FUTEX_WAIT, seen, &timeout) != 0 && errno == EINTR;
  words.sleepers.fetch_sub(1, std::memory_order_seq_cst);
  return !interrupted;
}

}  // namespace pruned
