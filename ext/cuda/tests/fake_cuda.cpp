// A fake libcuda.so.1: device addresses are address ranges of this process, physical memory is files in memory.
//
// Copies wait until somebody waits for their stream or event, so memory that is unmapped too early is seen: a copy
// from it faults. A physical handle can be mapped once, and what is not mapped cannot be touched, as on a device. Time
// passes only where memory is opened and, on a stream of its own, where it is copied: events tell that, not how long
// tests take.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "fake.h"

namespace {

constexpr std::size_t kGranularity = std::size_t{2} << 20;
constexpr int kInvalid = 1, kOutOfMemory = 2, kNotReady = 600;
constexpr double kMiB = 1 << 20;

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
};

struct Stream {
  std::deque<Copy> waiting;
  std::uint64_t queued = 0, done = 0;
  double idle_at = 0;
};

struct Event {
  Stream* stream = nullptr;
  std::uint64_t at = 0;
  int looks = 0;
  double time = 0;
};

struct Physical {
  std::size_t bytes;
  int file;
};

std::recursive_mutex everything;
std::size_t total = std::size_t{1} << 30, used = 0, pinned = 0;
double now = 0, opening_takes = 0;
int refused_opening = 0, openings_before = 0;
std::vector<std::size_t> opened;
int refusals = 0, creations_beside = 0, releases_beside = 0, empty_pins = 0;
std::set<Stream*> streams;
std::map<void*, std::size_t> pins;
std::map<std::uint64_t, std::size_t> mapped;
int context;
thread_local void* current = nullptr;
std::atomic<bool> made{false};

bool copying() {
  return std::any_of(streams.begin(), streams.end(), [](const Stream* stream) { return !stream->waiting.empty(); });
}

void run(Stream& stream, std::uint64_t until) {
  while (stream.done < until) {
    const Copy copy = stream.waiting.front();
    stream.waiting.pop_front();
    std::memcpy(copy.to, copy.from, copy.bytes);
    ++stream.done;
  }
}

int queue(Stream* stream, Copy copy) {
  stream->waiting.push_back(copy);
  ++stream->queued;
  stream->idle_at = std::max(now, stream->idle_at) + copy.bytes / kMiB;
  return 0;
}

}  // namespace

#define LOCKED const std::lock_guard lock(everything)

extern "C" {

void fake_memory(std::size_t bytes) { LOCKED; total = bytes; }
int fake_openings() { LOCKED; return static_cast<int>(opened.size()); }
std::size_t fake_opened(int which) { LOCKED; return which < fake_openings() ? opened[which] : 0; }
void fake_opening_takes(double time) { LOCKED; opening_takes = time; }
void fake_refuse_openings(int result, int after) { LOCKED; refused_opening = result; openings_before = after; }
int fake_creations_beside_copies() { LOCKED; return creations_beside; }
int fake_releases_beside_copies() { LOCKED; return releases_beside; }
std::size_t fake_in_use() { LOCKED; return used; }
void fake_refuse_pins(int count) { LOCKED; refusals = count; }
int fake_empty_pins() { LOCKED; return empty_pins; }
std::size_t fake_pinned() { LOCKED; return pinned; }
void fake_make_context() { made = true; current = &context; }

int cuGetErrorString(int error, const char** text) {
  *text = error == kOutOfMemory ? "out of memory" : "invalid argument";
  return 0;
}
int cuCtxGetCurrent(void** out) { *out = current; return made ? 0 : 3; }
int cuCtxSetCurrent(void* wanted) { current = wanted; return 0; }
int cuCtxGetDevice(int* device) { *device = 0; return current != nullptr ? 0 : 201; }
int cuCtxSynchronize() { return current != nullptr ? 0 : 201; }
int cuMemGetInfo_v2(std::size_t* free, std::size_t* whole) {
  LOCKED;
  *free = total - used;
  *whole = total;
  return 0;
}
int cuMemGetAllocationGranularity(std::size_t* bytes, const void*, int) { *bytes = kGranularity; return 0; }

int cuMemAddressReserve(std::uint64_t* start, std::size_t bytes, std::size_t, std::uint64_t, unsigned long long) {
  void* range = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  *start = reinterpret_cast<std::uint64_t>(range);
  return range == MAP_FAILED ? kOutOfMemory : 0;
}
int cuMemAddressFree(std::uint64_t start, std::size_t bytes) {
  return munmap(reinterpret_cast<void*>(start), bytes) == 0 ? 0 : kInvalid;
}
int cuMemCreate(std::uint64_t* handle, std::size_t bytes, const void*, unsigned long long) {
  LOCKED;
  if (bytes % kGranularity != 0) return kInvalid;
  if (used + bytes > total) return kOutOfMemory;
  const int file = memfd_create("physical", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return kInvalid;
  used += bytes;
  creations_beside += copying();
  *handle = reinterpret_cast<std::uint64_t>(new Physical{bytes, file});
  return 0;
}
int cuMemRelease(std::uint64_t handle) {
  LOCKED;
  auto* physical = reinterpret_cast<Physical*>(handle);
  used -= physical->bytes;
  releases_beside += copying();
  close(physical->file);
  delete physical;
  return 0;
}
int cuMemMap(std::uint64_t start, std::size_t bytes, std::size_t, std::uint64_t handle, unsigned long long) {
  LOCKED;
  const auto* physical = reinterpret_cast<Physical*>(handle);
  if (physical->bytes != bytes || mapped.contains(start)) return kInvalid;
  mapped[start] = bytes;
  void* at = reinterpret_cast<void*>(start);
  return mmap(at, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->file, 0) == at ? 0 : kInvalid;
}
/// Whether mappings, and nothing else, make up the range; the driver takes several at once.
bool whole(std::uint64_t start, std::size_t bytes) {
  const std::uint64_t end = start + bytes;
  while (start < end && mapped.contains(start)) start += mapped[start];
  return start == end;
}
int cuMemUnmap(std::uint64_t start, std::size_t bytes) {
  LOCKED;
  if (!whole(start, bytes)) return kInvalid;
  mapped.erase(mapped.lower_bound(start), mapped.lower_bound(start + bytes));
  void* at = reinterpret_cast<void*>(start);
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  return mmap(at, bytes, PROT_NONE, kFlags, -1, 0) == at ? 0 : kInvalid;
}
int cuMemSetAccess(std::uint64_t start, std::size_t bytes, const void*, std::size_t) {
  LOCKED;
  if (refused_opening != 0 && openings_before-- <= 0) return refused_opening;
  opened.push_back(bytes);
  now += opening_takes * std::distance(mapped.lower_bound(start), mapped.lower_bound(start + bytes));
  return whole(start, bytes) && mprotect(reinterpret_cast<void*>(start), bytes, PROT_READ | PROT_WRITE) == 0 ? 0 : kInvalid;
}

int cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned) {
  LOCKED;
  if (refusals > 0) {
    --refusals;
    return kOutOfMemory;
  }
  if (!pins.emplace(memory, bytes).second) return kInvalid;
  std::vector<unsigned char> there(bytes / static_cast<std::size_t>(getpagesize()));
  empty_pins += mincore(memory, bytes, there.data()) != 0 || std::count(there.begin(), there.end(), 0) > 0;
  pinned += bytes;
  return 0;
}
int cuMemHostUnregister(void* memory) {
  LOCKED;
  const auto found = pins.find(memory);
  if (found == pins.end()) return kInvalid;
  pinned -= found->second;
  pins.erase(found);
  return 0;
}

int cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes, void* stream) {
  LOCKED;
  return queue(static_cast<Stream*>(stream), {to, reinterpret_cast<void*>(from), bytes});
}
int cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes, void* stream) {
  LOCKED;
  return queue(static_cast<Stream*>(stream), {reinterpret_cast<void*>(to), from, bytes});
}
int cuStreamCreate(void** stream, unsigned) {
  LOCKED;
  *stream = *streams.insert(new Stream).first;
  return current != nullptr ? 0 : 201;
}
int cuStreamDestroy_v2(void* stream) {
  LOCKED;
  streams.erase(static_cast<Stream*>(stream));
  delete static_cast<Stream*>(stream);
  return 0;
}
int cuStreamSynchronize(void* stream) {
  LOCKED;
  auto& which = *static_cast<Stream*>(stream);
  run(which, which.queued);
  return 0;
}
int cuEventCreate(void** event, unsigned) { *event = new Event; return 0; }
int cuEventDestroy_v2(void* event) { delete static_cast<Event*>(event); return 0; }
int cuEventRecord(void* event, void* stream) {
  LOCKED;
  auto* from = static_cast<Stream*>(stream);
  *static_cast<Event*>(event) = {from, from->queued, 0, std::max(now, from->idle_at)};
  return 0;
}
int cuEventElapsedTime(float* ms, void* from, void* to) {
  LOCKED;
  const auto &first = *static_cast<Event*>(from), &last = *static_cast<Event*>(to);
  const auto ended = [](const Event& event) { return event.stream != nullptr && event.stream->done >= event.at; };
  if (!ended(first) || !ended(last)) return kNotReady;
  *ms = static_cast<float>(last.time - first.time);
  return 0;
}
int cuEventQuery(void* event) {  // a copy is done at the third look, so that others are begun before it is
  LOCKED;
  auto& which = *static_cast<Event*>(event);
  if (++which.looks >= 3) run(*which.stream, which.at);
  return which.stream->done >= which.at ? 0 : kNotReady;
}
int cuEventSynchronize(void* event) {
  LOCKED;
  auto& which = *static_cast<Event*>(event);
  run(*which.stream, which.at);
  return 0;
}

}  // extern "C"
