#include "segment.h"

#include <algorithm>

namespace residency {

Segment::Segment(DevicePointer start, std::size_t bytes, int device)
    : start_(start),
      bytes_(bytes),
      device_(device),
      physical_((bytes + kChunk - 1) / kChunk, 0) {}

std::size_t Segment::chunk_bytes(std::size_t chunk) const { return std::min(kChunk, bytes_ - chunk * kChunk); }

bool Segment::map(std::size_t chunk) {
  const PhysicalKind kind{.location = {.id = device_}};
  const Access access{.location = {.id = device_}};
  const std::size_t size = chunk_bytes(chunk);
  Physical made = 0;
  const Result created = driver().cuMemCreate(&made, size, &kind, 0);
  if (created == kOutOfMemory) {
    return false;
  }
  check(created, "cuMemCreate");
  const Result mapped = driver().cuMemMap(chunk_start(chunk), size, 0, made, 0);
  const Result opened = mapped != 0 ? mapped : driver().cuMemSetAccess(chunk_start(chunk), size, &access, 1);
  if (opened != 0) {
    if (mapped == 0) {
      driver().cuMemUnmap(chunk_start(chunk), size);
    }
    driver().cuMemRelease(made);
    if (opened == kOutOfMemory) {  // page tables take memory too
      return false;
    }
    check(opened, mapped != 0 ? "cuMemMap" : "cuMemSetAccess");
  }
  physical_[chunk] = made;
  return true;
}

void Segment::unmap(std::size_t chunk) {
  RESIDENCY_CHECK(cuMemUnmap(chunk_start(chunk), chunk_bytes(chunk)));
  RESIDENCY_CHECK(cuMemRelease(physical_[chunk]));
  physical_[chunk] = 0;
}

void Segment::unmap_all() {
  for (std::size_t chunk = 0; chunk < chunks(); ++chunk) {
    if (mapped(chunk)) {
      unmap(chunk);
    }
  }
}

std::size_t granularity(int device) {
  const PhysicalKind kind{.location = {.id = device}};
  std::size_t bytes = 0;
  RESIDENCY_CHECK(cuMemGetAllocationGranularity(&bytes, &kind, 0));
  return bytes;
}

}  // namespace residency
