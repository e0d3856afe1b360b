// A bell is what a party sleeps on: all whose doings may let it go on ring it, in whichever process they are.
//
// It is a count of rings and a note that somebody sleeps. The sleeper looks at the count, tries what it can, and if
// nothing can be done sleeps unless the count has changed; so no ring is lost, and none costs a system call where
// nobody sleeps.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "clock.h"
#include "directory.h"

namespace pruned {

class Bell;

/// While it lives, this thread puts off waking those who sleep: one wake is enough for several rings, and they find
/// more to do. Who owes wakes must not wait.
class Wakes {
 public:
  Wakes();
  ~Wakes();
  Wakes(const Wakes&) = delete;
  Wakes& operator=(const Wakes&) = delete;

  /// Wakes all that were put off.
  void settle();

 private:
  friend class Bell;
  struct Owed {
    Bell* bell;
    int rings;
  };

  void owe(Bell& bell);

  std::vector<Owed> owed_;
};

class Bell {
 public:
  Bell(Directory& directory, const std::string& name);

  /// Whoever sleeps is woken; not at once if there is no hurry and the thread's wakes are put off.
  void ring(bool hurry = true);
  std::uint32_t rings() const { return words().rings.load(std::memory_order_acquire); }

  /// Waits for a ring after `seen` until `deadline` (clock.h), awake at first; false if a signal ended the wait.
  bool wait(std::uint32_t seen, std::int64_t deadline);
  /// The same, but no longer than that, as a sleep may take: the end is spent awake.
  bool wait_sharp(std::uint32_t seen, std::int64_t deadline);
  /// The same, awake all the time. Whether it rang.
  bool watch(std::uint32_t seen, std::int64_t deadline);

 private:
  struct Words {
    std::atomic<std::uint32_t> rings;
    std::atomic<std::uint32_t> sleepers;
  };
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == 4);

  friend class Wakes;
  void wake();
  bool sleep(std::uint32_t seen, std::int64_t duration);

  Words& words() const { return *reinterpret_cast<Words*>(mapping_->data()); }

  std::shared_ptr<Mapping> mapping_;
  std::int64_t crowded_until_ = 0;  // somebody else computes on this core, as far as one knows
};

}  // namespace pruned
