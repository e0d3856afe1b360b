#include "copies.h"

#include <algorithm>

namespace residency {
namespace {

/// What is copied at a time. Where another process maps memory meanwhile, that waits for the copy under way: with copies
/// of a whole chunk it took 0.6 ms a chunk, and a switch in both directions half as long again as the copies.
constexpr std::size_t kPiece = std::size_t{4} << 20;
constexpr unsigned kNonBlocking = 1;
constexpr unsigned kNoTiming = 2;

}  // namespace

Copies::Copies(Image& image) : image_(image) { RESIDENCY_CHECK(cuStreamCreate(&stream_, kNonBlocking)); }

Copies::~Copies() {
  driver().cuStreamSynchronize(stream_);
  for (const Leaving& chunk : leaving_) {
    spare_.push_back(chunk.copied);
  }
  for (const Event event : spare_) {
    driver().cuEventDestroy(event);
  }
  driver().cuStreamDestroy(stream_);
}

/// Calls `copy` with device address, host address and size for each piece of the chunk; a piece lies in one slot.
template <class Copy>
void Copies::piecewise(const Segment& segment, std::size_t chunk, Copy copy) {
  std::size_t at = segment.image_offset + chunk * kChunk;
  DevicePointer device = segment.chunk_start(chunk);
  std::size_t left = segment.chunk_bytes(chunk);
  while (left > 0) {
    const std::size_t inside = at % kSlot;
    const std::size_t size = std::min({left, kSlot - inside, kPiece});
    copy(device, image_.slot(at / kSlot, stream_) + inside, size);
    at += size;
    device += size;
    left -= size;
  }
}

void Copies::out(Segment& segment, std::size_t chunk) {
  piecewise(segment, chunk, [&](DevicePointer device, std::byte* host, std::size_t size) {
    RESIDENCY_CHECK(cuMemcpyDtoHAsync(host, device, size, stream_));
  });
  const Event copied = event();
  leaving_.push_back({&segment, chunk, copied});
  RESIDENCY_CHECK(cuEventRecord(copied, stream_));
}

void Copies::unmap_finished(bool wait) {
  while (!leaving_.empty()) {
    const Leaving next = leaving_.front();
    const Result state = wait ? driver().cuEventSynchronize(next.copied) : driver().cuEventQuery(next.copied);
    if (state == kNotReady) {
      return;
    }
    check(state, "a copy to the host pool");
    leaving_.pop_front();
    spare_.push_back(next.copied);
    next.segment->unmap(next.chunk);
  }
}

void Copies::in(Segment& segment, std::size_t chunk) {
  piecewise(segment, chunk, [&](DevicePointer device, const std::byte* host, std::size_t size) {
    RESIDENCY_CHECK(cuMemcpyHtoDAsync(device, host, size, stream_));
  });
}

void Copies::wait() { RESIDENCY_CHECK(cuStreamSynchronize(stream_)); }

Event Copies::event() {
  if (spare_.empty()) {
    Event made = nullptr;
    RESIDENCY_CHECK(cuEventCreate(&made, kNoTiming));
    return made;
  }
  const Event used = spare_.back();
  spare_.pop_back();
  return used;
}

}  // namespace residency
