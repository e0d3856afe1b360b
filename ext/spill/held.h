// All other threads of this process, held where they are: nobody but the caller writes to memory meanwhile.
//
// Each gets a real-time signal, whose handler waits until it may go on. The kernel begins interrupted system calls again,
// as after any handler with SA_RESTART; polls and sleeps return EINTR, as they do after any handler. Nothing here
// allocates, for a held thread may hold the allocator's lock.
#pragma once

#include <cstdint>

namespace spill {

class Held {
 public:
  /// Holds them, or fails: a thread that blocks the signal, or sleeps where the kernel does not wake it, cannot be held.
  Held();
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held();

  bool all() const { return all_; }
  /// Whether a page may be written to all the same: by a thread on its stack, in its own data, or by what holds them.
  bool uses(std::uintptr_t page) const;

 private:
  bool hold_listed(std::int64_t deadline, bool& news);
  void note_used();

  bool all_ = false;
};

}  // namespace spill
