// Work dealt to the processors that this thread may use.

#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace prism {

inline int64_t usable_processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

// Does 0 to `count` - 1, whichever thread comes to it. `begin` gives each its own work, a function of the number. The
// first that is thrown goes on to the caller, once all have stopped.
template <class Begin>
void deal(int64_t count, int64_t threads, const Begin& begin) {
  std::atomic<int64_t> next = 0;
  std::exception_ptr thrown;
  std::once_flag failed;
  const auto run = [&] {
    try {
      auto work = begin();
      for (int64_t mine = next++; mine < count; mine = next++) {
        work(mine);
      }
    } catch (...) {
      std::call_once(failed, [&] { thrown = std::current_exception(); });
      next = count;
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      while (static_cast<int64_t>(others.size()) + 1 < std::min(threads, count)) {
        others.emplace_back(run);
      }
    } catch (const std::system_error&) {  // no more threads are to be had: it takes longer
    }
    run();
  }
  if (thrown) {
    std::rethrow_exception(thrown);
  }
}

}  // namespace prism
