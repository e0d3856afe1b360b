#include "detour.h"

#include <algorithm>
#include <atomic>

#include "job.h"
#include "payload_file.h"
#include "seen.h"

namespace pruned::device {

Detour::Detour(const std::vector<Reading>& readings, const std::uint64_t* ended, const std::uint32_t* looked)
    : readings_(readings),
      ended_(ended),
      looked_(looked),
      table_(pinned_memory((entries() + 1) * static_cast<std::int64_t>(sizeof(Payload)))) {
  std::map<const void*, std::int64_t> largest;
  for (const Reading& reading : readings_) {
    largest[reading.group] = std::max(largest[reading.group], reading.bytes);
  }
  for (const auto& [group, bytes] : largest) {
    if (bytes > 0) {
      rooms_[group].data = pinned_memory(bytes);
    }
  }
}

bool Detour::bring() {
  while (first_ < entries() && (readings_[first_].bytes == 0 || over(first_))) {
    ++first_;
  }
  for (std::int64_t entry = first_; entry < entries(); ++entry) {
    if (!wanted(entry)) {
      continue;
    }
    if (Room& room = rooms_[readings_[entry].group]; room.entry < 0 || over(room.entry)) {
      room.entry = entry;
      read(entry, room.data.get());
      return true;
    }
  }
  return false;
}

bool Detour::has(std::int64_t entry) const { return seen(payloads()[entry].ready) != 0; }

bool Detour::over(std::int64_t entry) const { return seen(ended_[entry]) != 0; }

/// A kernel has come for it and found it missing, and it has not come this way either.
bool Detour::wanted(std::int64_t entry) const {
  return readings_[entry].bytes != 0 && seen(looked_[entry]) == 2 && !over(entry) && !has(entry);
}

void Detour::read(std::int64_t entry, std::byte* to) {
  const Reading& reading = readings_[entry];
  for (const Reading::Placed& placed : reading.parts) {
    PayloadFile(placed.part.path).read(to + placed.at, placed.part.nbytes, placed.part.offset);
  }
  const auto at = [&](std::int64_t offset) { return offset < 0 ? nullptr : to + offset; };
  Payload& payload = reinterpret_cast<Payload*>(table_.get())[entry];
  payload.head = at(reading.head);
  payload.tail = at(reading.tail);
  payload.final = at(reading.final);
  std::atomic_ref(payload.ready).store(1, std::memory_order_release);
}

}  // namespace pruned::device
