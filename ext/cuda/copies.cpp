#include "copies.h"

#include <algorithm>

#include "tally.h"

namespace residency {
namespace {

/// What is opened, and unmapped, at a time; neither that nor the size of a copy makes a measurable difference.
constexpr std::size_t kRun = std::size_t{128} << 20;
constexpr unsigned kNonBlocking = 1;
constexpr unsigned kNoTiming = 2;

}  // namespace

bool Copies::Run::takes(const Segment& segment, std::size_t chunk) const {
  return chunks.empty() ||
         (range.meets(segment.chunk_start(chunk)) && range.bytes + segment.chunk_bytes(chunk) <= kRun);
}

void Copies::Run::add(Segment& segment, std::size_t chunk) {
  range.start = chunks.empty() ? segment.chunk_start(chunk) : range.start;
  range.bytes += segment.chunk_bytes(chunk);
  chunks.push_back({&segment, chunk});
}

Copies::Copies(Image& image, int device) : image_(image), device_(device) {
  RESIDENCY_CHECK(cuStreamCreate(&stream_, kNonBlocking));
}

Copies::~Copies() {
  driver().cuStreamSynchronize(stream_);
  for (const Run& run : leaving_) {
    spare_.push_back(run.copied);
  }
  for (const Event event : spare_) {
    driver().cuEventDestroy(event);
  }
  driver().cuStreamDestroy(stream_);
}

/// Calls `copy` with device address, host address and size for each piece of the chunk that lies in one slot.
template <class Copy>
void Copies::piecewise(const Segment& segment, std::size_t chunk, Copy copy) {
  std::size_t at = segment.image_offset + chunk * kChunk;
  DevicePointer device = segment.chunk_start(chunk);
  std::size_t left = segment.chunk_bytes(chunk);
  while (left > 0) {
    const std::size_t inside = at % kSlot;
    const std::size_t size = std::min(left, kSlot - inside);
    copy(device, image_.slot(at / kSlot, stream_) + inside, size);
    at += size;
    device += size;
    left -= size;
  }
}

void Copies::out(Segment& segment, std::size_t chunk) {
  piecewise(segment, chunk, [&](DevicePointer device, std::byte* host, std::size_t size) {
    RESIDENCY_CHECK_TALLIED(COPY, cuMemcpyDtoHAsync(host, device, size, stream_));
  });
  if (leaving_.empty() || !leaving_.back().takes(segment, chunk)) {
    leaving_.emplace_back().copied = event();
  }
  leaving_.back().add(segment, chunk);
  RESIDENCY_CHECK(cuEventRecord(leaving_.back().copied, stream_));
}

void Copies::unmap_finished(bool wait) {
  while (!leaving_.empty()) {
    const Run& run = leaving_.front();
    const Result state =
        wait ? RESIDENCY_TALLIED(WAIT, cuEventSynchronize(run.copied)) : driver().cuEventQuery(run.copied);
    if (state == kNotReady) {
      return;
    }
    check(state, "a copy to the host pool");
    unmap(run.range);
    for (const Chunk& chunk : run.chunks) {
      chunk.segment->release(chunk.index);
    }
    spare_.push_back(run.copied);
    leaving_.pop_front();
  }
}

bool Copies::open() {
  if (coming_.chunks.empty()) {
    return true;
  }
  if (!grant(coming_.range, device_)) {
    return false;
  }
  for (const Chunk& chunk : coming_.chunks) {
    piecewise(*chunk.segment, chunk.index, [&](DevicePointer device, const std::byte* host, std::size_t size) {
      RESIDENCY_CHECK_TALLIED(COPY, cuMemcpyHtoDAsync(device, host, size, stream_));
    });
  }
  coming_ = {};
  return true;
}

void Copies::wait() { RESIDENCY_CHECK_TALLIED(WAIT, cuStreamSynchronize(stream_)); }

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
