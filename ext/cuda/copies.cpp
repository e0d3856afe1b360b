#include "copies.h"

#include <algorithm>

#include "tally.h"

namespace residency {
namespace {

constexpr unsigned kNonBlocking = 1;
constexpr unsigned kTimed = 0;
constexpr double kNsPerMs = 1e6;

/// Between two events that have happened, in ms.
double elapsed(Event from, Event to) {
  float ms = 0;
  RESIDENCY_CHECK(cuEventElapsedTime(&ms, from, to));
  return ms;
}

std::uint64_t in_ns(double ms) { return static_cast<std::uint64_t>(std::max(0.0, ms) * kNsPerMs); }

}  // namespace

bool Copies::Run::takes(const Segment& segment, std::size_t chunk) const {
  return chunks.empty() ||
         (range.meets(segment.chunk_start(chunk)) && range.bytes + segment.chunk_bytes(chunk) <= kChunk);
}

void Copies::Run::add(Segment& segment, std::size_t chunk) {
  range.start = chunks.empty() ? segment.chunk_start(chunk) : range.start;
  range.bytes += segment.chunk_bytes(chunk);
  chunks.push_back({&segment, chunk});
}

Copies::Copies(Image& image, int device, std::vector<Event>& spare) : image_(image), device_(device), spare_(spare) {
  RESIDENCY_CHECK(cuStreamCreate(&stream_, kNonBlocking));
}

Copies::~Copies() {
  driver().cuStreamSynchronize(stream_);
  for (const Span& span : spans_) {
    spare_.insert(spare_.end(), {span.begun, span.copied});
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
  if (leaving_.empty() || !leaving_.back().takes(segment, chunk)) {
    leaving_.emplace_back().copied = begin().copied;
  }
  piecewise(segment, chunk, [&](DevicePointer device, std::byte* host, std::size_t size) {
    RESIDENCY_CHECK_TALLIED(COPY, cuMemcpyDtoHAsync(host, device, size, stream_));
  });
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
    leaving_.pop_front();
  }
}

bool Copies::takes(const Segment& segment, std::size_t chunk) const {
  const bool first = spans_.empty() && !coming_.chunks.empty();  // alone: until it is open there is nothing to copy
  return !first && coming_.takes(segment, chunk);
}

bool Copies::open() {
  if (coming_.chunks.empty()) {
    return true;
  }
  if (!grant(coming_.range, device_)) {
    return false;
  }
  const Event copied = begin().copied;
  for (const Chunk& chunk : coming_.chunks) {
    piecewise(*chunk.segment, chunk.index, [&](DevicePointer device, const std::byte* host, std::size_t size) {
      RESIDENCY_CHECK_TALLIED(COPY, cuMemcpyHtoDAsync(device, host, size, stream_));
    });
  }
  RESIDENCY_CHECK(cuEventRecord(copied, stream_));
  coming_ = {};
  return true;
}

void Copies::wait() { RESIDENCY_CHECK_TALLIED(WAIT, cuStreamSynchronize(stream_)); }

CopyTimes Copies::times() const {
  if (spans_.empty()) {
    return {};
  }
  double starved = 0;
  for (std::size_t next = 1; next < spans_.size(); ++next) {
    starved += elapsed(spans_[next - 1].copied, spans_[next].begun);
  }
  return {.copying = in_ns(elapsed(spans_.front().begun, spans_.back().copied)), .starved = in_ns(starved)};
}

const Copies::Span& Copies::begin() {
  while (spare_.size() < 2) {
    Event made = nullptr;
    RESIDENCY_CHECK(cuEventCreate(&made, kTimed));
    spare_.push_back(made);
  }
  Span& span = spans_.emplace_back();
  for (Event* event : {&span.begun, &span.copied}) {
    *event = spare_.back();
    spare_.pop_back();
  }
  RESIDENCY_CHECK(cuEventRecord(span.begun, stream_));
  return span;
}

}  // namespace residency
