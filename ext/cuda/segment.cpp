#include "segment.h"

#include <algorithm>

#include "tally.h"

namespace residency {

Segment::Segment(DevicePointer start, std::size_t bytes, int device)
    : start_(start),
      bytes_(bytes),
      device_(device),
      physical_((bytes + kChunk - 1) / kChunk, 0) {}

std::size_t Segment::chunk_bytes(std::size_t chunk) const { return std::min(kChunk, bytes_ - chunk * kChunk); }

bool Segment::map(std::size_t chunk) {
  const PhysicalKind kind{.location = {.id = device_}};
  Physical made = 0;
  const Result created = RESIDENCY_TALLIED(CREATE, cuMemCreate(&made, chunk_bytes(chunk), &kind, 0));
  if (created == kOutOfMemory) {
    return false;
  }
  check(created, "cuMemCreate");
  const Result mapped = RESIDENCY_TALLIED(MAP, cuMemMap(chunk_start(chunk), chunk_bytes(chunk), 0, made, 0));
  if (mapped != 0) {
    driver().cuMemRelease(made);
    if (mapped == kOutOfMemory) {
      return false;
    }
    check(mapped, "cuMemMap");
  }
  physical_[chunk] = made;
  return true;
}

bool Segment::map_all() {
  for (std::size_t chunk = 0; chunk < chunks(); ++chunk) {
    if (!mapped(chunk) && !map(chunk)) {
      return false;
    }
  }
  return grant({start_, bytes_}, device_);
}

std::size_t Segment::mapped_bytes() const {
  std::size_t bytes = 0;
  for (std::size_t chunk = 0; chunk < chunks(); ++chunk) {
    bytes += mapped(chunk) ? chunk_bytes(chunk) : 0;
  }
  return bytes;
}

void Segment::release(std::size_t chunk) {
  RESIDENCY_CHECK_TALLIED(RELEASE, cuMemRelease(physical_[chunk]));
  physical_[chunk] = 0;
}

void Segment::unmap_all() {
  for (std::size_t chunk = 0; chunk < chunks(); ++chunk) {
    if (mapped(chunk)) {
      unmap({chunk_start(chunk), chunk_bytes(chunk)});
      release(chunk);
    }
  }
}

bool grant(Range range, int device) {
  const Access access{.location = {.id = device}};
  const Result opened = RESIDENCY_TALLIED(OPEN, cuMemSetAccess(range.start, range.bytes, &access, 1));
  if (opened == kOutOfMemory) {
    return false;
  }
  check(opened, "cuMemSetAccess");
  return true;
}

void unmap(Range range) { RESIDENCY_CHECK_TALLIED(UNMAP, cuMemUnmap(range.start, range.bytes)); }

std::size_t granularity(int device) {
  const PhysicalKind kind{.location = {.id = device}};
  std::size_t bytes = 0;
  RESIDENCY_CHECK(cuMemGetAllocationGranularity(&bytes, &kind, 0));
  return bytes;
}

}  // namespace residency
