#include "held.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include "pages.h"

namespace spill {
namespace {

constexpr int kMaxThreads = 512;
constexpr std::int64_t kPatience = 200'000'000;  // ns to wait for a thread to be held
constexpr long kPoll = 20'000;                   // ns

constexpr std::uintptr_t kLargestStack = 256 << 20;
constexpr std::uintptr_t kBelow = 64 << 10;  // for calls that are still to come, or thread-local data
constexpr std::uintptr_t kAbove = 8 << 10;   // a thread's descriptor

struct Area {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

struct Thread {
  std::atomic<int> id{0};
  std::uintptr_t stack = 0;
  std::uintptr_t own = 0;  // its descriptor, and with it its thread-local data
};

// One page or more of this library; never written out.
struct State {
  std::atomic<int> held{0};    // threads in `threads`
  std::atomic<int> inside{0};  // handlers that run
  std::atomic<int> closed{0};  // 1 while they wait: a futex
  Thread threads[kMaxThreads];
  int signalled[kMaxThreads];
  int signals = 0;
  Area used[kMaxThreads + 2];
  int areas = 0;
  char names[8192];
};
State state;

int signal_number() { return SIGRTMAX - 3; }

void futex(int operation, int value) { syscall(SYS_futex, &state.closed, operation, value, nullptr, nullptr, 0); }

void wait_here(int) {
  const int error = errno;
  state.inside.fetch_add(1);
  if (state.closed.load() == 1) {
    const int place = state.held.fetch_add(1);
    if (place < kMaxThreads) {
      state.threads[place].stack = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
      state.threads[place].own = static_cast<std::uintptr_t>(pthread_self());
      state.threads[place].id.store(static_cast<int>(syscall(SYS_gettid)));
    }
    while (state.closed.load() == 1) futex(FUTEX_WAIT_PRIVATE, 1);
  }
  state.inside.fetch_sub(1);
  errno = error;
}

std::int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

void nap() {
  const timespec time{0, kPoll};
  nanosleep(&time, nullptr);
}

bool is_held(int id) {
  const int count = state.held.load();
  for (int i = 0; i < count && i < kMaxThreads; ++i) {
    if (state.threads[i].id.load() == id) return true;
  }
  return false;
}

bool was_signalled(int id) {
  for (int i = 0; i < state.signals; ++i) {
    if (state.signalled[i] == id) return true;
  }
  return false;
}

bool install() {
  struct sigaction before {};
  if (sigaction(signal_number(), nullptr, &before) != 0) return false;
  if (before.sa_handler == &wait_here) return true;
  if (before.sa_handler != SIG_DFL) return false;  // the program's own
  struct sigaction ours {};
  ours.sa_handler = &wait_here;
  ours.sa_flags = SA_RESTART;
  sigfillset(&ours.sa_mask);
  return sigaction(signal_number(), &ours, nullptr) == 0;
}

// What a thread uses: its stack up to its descriptor, which lies at the end of it. The main thread's lies elsewhere, behind
// its thread-local data, and its stack is no memory that is written out.
Area area_of(std::uintptr_t stack, std::uintptr_t own) {
  const bool together = stack < own && own - stack < kLargestStack;
  return {(together ? stack : own) - kBelow, own + kAbove};
}

}  // namespace

Held::Held() {
  if (!install()) return;
  while (state.inside.load() != 0) nap();  // those of the last time are on their way out
  state.held.store(0);
  state.signals = 0;
  for (Thread& thread : state.threads) thread.id.store(0, std::memory_order_relaxed);
  state.closed.store(1);
  const std::int64_t deadline = now() + kPatience;
  bool news = true;
  all_ = true;
  while (all_ && news) {  // a thread that was not held yet may have started another one
    news = false;
    all_ = hold_listed(deadline, news);
  }
  note_used();
}

bool Held::hold_listed(std::int64_t deadline, bool& news) {
  const int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return false;
  const int self = static_cast<int>(syscall(SYS_gettid));
  bool good = true;
  for (long got; good && (got = syscall(SYS_getdents64, folder, state.names, sizeof state.names)) > 0;) {
    for (long at = 0; good && at < got;) {
      const auto* entry = reinterpret_cast<const dirent64*>(state.names + at);
      at += entry->d_reclen;
      const int id = std::atoi(entry->d_name);
      if (id <= 0 || id == self || was_signalled(id)) continue;
      good = state.signals < kMaxThreads;
      if (good) state.signalled[state.signals++] = id;
      news = true;
      if (good) syscall(SYS_tgkill, getpid(), id, signal_number());
    }
  }
  close(folder);
  for (int i = 0; good && i < state.signals; ++i) {
    while (good && !is_held(state.signalled[i])) {
      if (syscall(SYS_tgkill, getpid(), state.signalled[i], 0) != 0 && errno == ESRCH) break;  // it has ended
      good = now() < deadline;
      nap();
    }
  }
  return good;
}

Held::~Held() {
  state.closed.store(0);
  futex(FUTEX_WAKE_PRIVATE, INT_MAX);
}

void Held::note_used() {
  const auto first = reinterpret_cast<std::uintptr_t>(&state);
  state.used[0] = {first - kBelow, first + sizeof state + kBelow};
  state.used[1] = area_of(reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)),
                          static_cast<std::uintptr_t>(pthread_self()));
  const int count = std::min(state.held.load(), kMaxThreads);
  for (int i = 0; i < count; ++i) state.used[i + 2] = area_of(state.threads[i].stack, state.threads[i].own);
  state.areas = count + 2;
}

bool Held::uses(std::uintptr_t page) const {
  return std::any_of(state.used, state.used + state.areas,
                     [page](const Area& area) { return area.begin < page + kPage && page < area.end; });
}

}  // namespace spill
