#include "bell.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
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

// A sleep costs about this much, so for so long a party stays awake.
constexpr std::int64_t kPatience = 100 * kMicrosecond;
// Meanwhile it offers its core to others. Who takes it for longer than this and does not ring is no party that answers
// but somebody who computes; so is who keeps it for longer than a party needs for a slot.
constexpr std::int64_t kAnswer = 200 * kMicrosecond;
constexpr std::int64_t kSlot = 500 * kMicrosecond;
// A sleep may end this much late.
constexpr std::int64_t kWakeLatency = 200 * kMicrosecond;
// So many rings are put off at most: then a FIFO is full, or all of it free.
constexpr int kPutOff = 8;

thread_local Wakes* wakes = nullptr;

// So long the core is not offered again, as it would come back a time slice later, and nobody stays awake.
constexpr std::int64_t kCrowded = 100 * kMillisecond;

}  // namespace

Bell::Bell(Directory& directory, const std::string& name) : mapping_(directory.open(name, sizeof(Words))) {}

void Bell::ring(bool hurry) {
  Words& words = this->words();
  words.rings.fetch_add(1, std::memory_order_seq_cst);
  // Whoever notes its sleep after this load has its count compared in the kernel, and finds the ring.
  if (words.sleepers.load(std::memory_order_seq_cst) == 0) {
    return;
  }
  if (hurry || wakes == nullptr) {
    wake();
  } else {
    wakes->owe(*this);
  }
}

void Bell::wake() { futex(words().rings, FUTEX_WAKE, INT_MAX, nullptr); }

Wakes::Wakes() { wakes = this; }

Wakes::~Wakes() {
  settle();
  wakes = nullptr;
}

void Wakes::settle() {
  for (const Owed& owed : owed_) {
    owed.bell->wake();
  }
  owed_.clear();
}

void Wakes::owe(Bell& bell) {
  const auto place = std::ranges::find(owed_, &bell, &Owed::bell);
  if (place == owed_.end()) {
    owed_.push_back({&bell, 1});
  } else if (++place->rings == kPutOff) {
    bell.wake();
    owed_.erase(place);
  }
}

bool Bell::wait(std::uint32_t seen, std::int64_t deadline) {
  const std::int64_t begun = now();
  if (begun >= crowded_until_ && watch(seen, std::min(deadline, begun + kPatience))) {
    return true;
  }
  const std::int64_t left = deadline - now();
  return left <= 0 || sleep(seen, left);
}

bool Bell::wait_sharp(std::uint32_t seen, std::int64_t deadline) {
  if (!wait(seen, deadline - kWakeLatency)) {
    return false;
  }
  watch(seen, deadline);
  return true;
}

bool Bell::watch(std::uint32_t seen, std::int64_t deadline) {
  for (std::int64_t time = now(); time < deadline; time = now()) {
    if (rings() != seen) {
      return true;
    }
    if (time < crowded_until_) {
      pause_briefly();
      continue;
    }
    sched_yield();
    const std::int64_t away = now() - time;
    if (away > kSlot || (away > kAnswer && rings() == seen)) {
      crowded_until_ = now() + kCrowded;
    }
  }
  return rings() != seen;
}

/// False if a signal ended the sleep.
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
