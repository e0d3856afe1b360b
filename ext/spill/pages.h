// Which pages of this process nobody shares: read from /proc without allocating, so that it may be done while all other
// threads are held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "held.h"

namespace spill {

constexpr std::size_t kPage = 4096;

/// A writable private mapping: anonymous, of a library's data, or of the spill file from `offset` on.
struct Mapping {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::uint64_t offset = 0;
  bool spilled = false;
};

/// Pages one after the other to be written out; `offset` is where they were in the spill file, if they were.
struct Run {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::uint64_t offset = 0;
};

/// A list in memory that somebody else owns.
template <typename Item>
class List {
 public:
  explicit List(std::span<Item> room) : room_(room) {}
  bool full() const { return size_ == room_.size(); }
  void add(const Item& item) { room_[size_++] = item; }
  std::span<Item> items() { return room_.first(size_); }
  std::size_t size() const { return size_; }

 private:
  std::span<Item> room_;
  std::size_t size_ = 0;
};

/// Appends the writable private mappings; `inode` is the spill file's. False if there is no room for all.
bool find_mappings(std::uint64_t inode, List<Mapping>& found);

/// What of a mapping is this process's alone and in memory only.
struct Private {
  bool all = true;         // whether there was room for all runs
  std::size_t used = 0;    // bytes that are in use, and so in no run
  bool elsewhere = false;  // whether there are pages that are in no run and in no file
};

/// Which page of memory each page of the file was written for. That a mapping shows it is not enough: who enlarges or
/// moves memory (a realloc does, by mremap) gets mappings of the file where other pages have their places.
class Places {
 public:
  /// False where there is no room for the list, which takes none until it is used.
  bool reserve();
  bool belongs(std::uint64_t offset, std::uintptr_t page) const;
  /// Pages of the file that these mappings show in other places than they were written for belong to nobody from here on:
  /// memory that has moved may still be read from them, while other memory has grown into where it was.
  void release_moved(std::span<const Mapping> mappings);
  void note(std::uint64_t offset, std::uintptr_t begin, std::uintptr_t end);

 private:
  std::span<std::uintptr_t> pages_;
};

/// Appends the runs of pages that are this process's alone and not in use: to `back` those that have a place in the file,
/// to `fresh` the others. A few shared pages between two fresh ones are taken along: a mapping costs more than they do.
Private find_runs(const Mapping& mapping, const Held& held, const Places* places, List<Run>& back, List<Run>& fresh);

/// How many bytes of a mapping are this process's alone and in memory only; -1 if the kernel does not say.
std::int64_t private_bytes(const Mapping& mapping);

}  // namespace spill
