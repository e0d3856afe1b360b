// Spilling: what only this process holds in memory goes into a file, and the same addresses are mapped to it.
//
// A rank that waits for others needs none of its memory until they are done. Without swap the kernel can take only pages
// of files away from it. So while all other threads are held, its private pages are written to a file that has no name,
// and the file is mapped in their places, copy-on-write: the first access brings a page back, the first write makes it
// private again, and the next spill writes only those. Nothing in the process notices, whoever had allocated the memory.
// Pages that it shares with the fork server stay.
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "held.h"
#include "pages.h"

namespace spill {
namespace {

constexpr std::size_t kMaxMappings = 40'000;  // of the 65,530 that a process may have
constexpr std::size_t kMaxRuns = 10'000;      // in one go
constexpr off_t kFileSize = 1LL << 40;        // apparent: what is not written takes no room
constexpr int kVectors = 1024;                // that the kernel takes in one call

// The lists of one spill, in memory that is no spill's business.
struct Room {
  Mapping mappings[kMaxMappings];
  Run back[kMaxRuns];
  Run fresh[kMaxRuns];
};

int file = -1;
std::uint64_t inode = 0;
std::uint64_t file_end = 0;
Places places;
bool forked = false;  // then other processes may read what is in the file

void on_fork() { forked = true; }

void on_birth() {  // a child shares the file, and must not write to it
  file = -1;
  inode = 0;
}

// Writes all that the vectors hold to the file, from an offset on; 0 or an error number.
int write_all(std::span<iovec> vectors, off_t at) {
  while (!vectors.empty()) {
    const ssize_t wrote = pwritev(file, vectors.data(), static_cast<int>(vectors.size()), at);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return wrote < 0 ? errno : EIO;
    at += wrote;
    auto done = static_cast<std::size_t>(wrote);
    while (!vectors.empty() && done >= vectors.front().iov_len) {
      done -= vectors.front().iov_len;
      vectors = vectors.subspan(1);
    }
    if (done > 0) {
      vectors.front() = {static_cast<char*>(vectors.front().iov_base) + done, vectors.front().iov_len - done};
    }
  }
  return 0;
}

iovec vector_of(const Run& run) { return {reinterpret_cast<void*>(run.begin), run.end - run.begin}; }

// Writes runs that are in no file yet to its end, and maps it in their places.
int append(std::span<const Run> runs) {
  static iovec vectors[kVectors];
  while (!runs.empty()) {
    const std::span<const Run> some = runs.first(std::min<std::size_t>(runs.size(), kVectors));
    std::transform(some.begin(), some.end(), vectors, vector_of);
    if (const int error = write_all(std::span(vectors).first(some.size()), static_cast<off_t>(file_end))) return error;
    for (const Run& run : some) {
      void* place = mmap(reinterpret_cast<void*>(run.begin), run.end - run.begin, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_FIXED, file, static_cast<off_t>(file_end));
      if (place == MAP_FAILED) return errno;
      places.note(file_end, run.begin, run.end);
      file_end += run.end - run.begin;
    }
    runs = runs.subspan(some.size());
  }
  return 0;
}

// Writes a run that was changed since it was in the file back to where it was: nothing maps that page of the file now.
int write_back(const Run& run) {
  iovec vector = vector_of(run);
  return write_all(std::span(&vector, 1), static_cast<off_t>(run.offset));
}

// The pages of the file, which are all that is left in these places, need not stay mapped.
void drop(std::span<const Mapping> mappings, std::span<const Run> runs) {
  for (const Run& run : runs) madvise(reinterpret_cast<void*>(run.begin), run.end - run.begin, MADV_DONTNEED);
  for (const Mapping& mapping : mappings) {
    if (mapping.spilled) madvise(reinterpret_cast<void*>(mapping.begin), mapping.end - mapping.begin, MADV_DONTNEED);
  }
}

struct Found {
  std::span<Mapping> mappings;  // `spilled`: of which nothing but pages of the file will be left
  std::span<Run> back;          // runs that were in the file
  std::span<Run> fresh;         // runs that were not
  std::int64_t left = 0;        // bytes that stay in memory; -1 if that is not known
};

// What is to be written. A process that has forked shares the file's pages: what changes goes to a new place then.
bool find(Room& room, const Held& held, Found& found) {
  List<Mapping> mappings(room.mappings);
  List<Run> back(room.back);
  List<Run> fresh(room.fresh);
  if (!find_mappings(inode, mappings)) return false;
  places.release_moved(mappings.items());
  for (Mapping& mapping : mappings.items()) {
    const Private result = find_runs(mapping, held, forked ? nullptr : &places, back, fresh);
    mapping.spilled = mapping.spilled && !forked && result.all && result.used == 0 && !result.elsewhere;
    if (found.left >= 0) found.left = result.all ? found.left + static_cast<std::int64_t>(result.used) : -1;
  }
  found = {mappings.items(), back.items(), fresh.items(), found.left};
  return true;
}

int put_away(Room& room, std::int64_t& left) {
  const Held held;
  Found found;
  if (!held.all()) return EAGAIN;
  if (!find(room, held, found)) return ENOMEM;
  for (const Run& run : found.back) {
    if (const int error = write_back(run)) return error;
  }
  if (const int error = append(found.fresh)) return error;
  drop(found.mappings, found.back);
  left = found.left;
  return 0;
}

}  // namespace
}  // namespace spill

extern "C" {

// Makes the file in a folder; 0 or an error number.
__attribute__((visibility("default"))) int prism_spill_open(const char* folder) {
  using namespace spill;
  file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) {  // not every file system knows files without a name
    std::string name = std::string(folder) + "/prism-spill-XXXXXX";
    file = mkostemp(name.data(), O_CLOEXEC);
    if (file >= 0) unlink(name.c_str());
  }
  struct stat about {};
  if (file < 0 || fstat(file, &about) != 0) return errno;
  inode = about.st_ino;
  if (!places.reserve()) return ENOMEM;
  // Memory that is enlarged may map the file behind its end: there has to be something, though nobody looks at it.
  if (ftruncate(file, kFileSize) != 0) return errno;
  return pthread_atfork(nullptr, on_fork, on_birth);
}

// Puts away what can be; *left says how many bytes stay in memory, -1 if that is not known. 0 or an error number.
__attribute__((visibility("default"))) int prism_spill(std::int64_t* left) {
  using namespace spill;
  *left = -1;
  if (file < 0) return EBADF;
  malloc_trim(0);
  void* memory = mmap(nullptr, sizeof(Room), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return errno;
  const int error = put_away(*static_cast<Room*>(memory), *left);
  munmap(memory, sizeof(Room));
  // What is not on the disk yet cannot be taken out of memory.
  constexpr unsigned kAll = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  if (error == 0 && sync_file_range(file, 0, 0, kAll) != 0) return errno;
  return error;
}

// How many bytes are this process's alone, in memory and in no file; -1 if the kernel does not say.
__attribute__((visibility("default"))) std::int64_t prism_private_bytes() {
  using namespace spill;
  void* memory = mmap(nullptr, sizeof(Room), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return -1;
  List<Mapping> mappings(static_cast<Room*>(memory)->mappings);
  std::int64_t total = find_mappings(inode, mappings) ? 0 : -1;
  for (const Mapping& mapping : mappings.items()) {
    const std::int64_t bytes = total < 0 ? -1 : private_bytes(mapping);
    total = bytes < 0 ? -1 : total + bytes;
  }
  munmap(memory, sizeof(Room));
  return total;
}
}
