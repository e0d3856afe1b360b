#include "reading.h"

#include <algorithm>

namespace pruned::device {
namespace {

constexpr std::int64_t kRegionAlign = 256;  // that of cudaMalloc's memory

std::int64_t place(Reading& reading, const Part& part) {
  if (part.nbytes == 0) {
    return -1;
  }
  const std::int64_t at = reading.bytes;
  reading.parts.push_back({part, at});
  reading.bytes += divided_up(part.nbytes, kRegionAlign) * kRegionAlign;
  return at;
}

}  // namespace

Reading reading_of(const PlannedOp& op, std::vector<std::int64_t>* offsets) {
  Reading reading;
  reading.head = place(reading, op.head);
  reading.tail = place(reading, op.tail);
  reading.final = place(reading, op.final);
  for (const Partner& partner : op.partners) {
    const std::int64_t at = place(reading, partner.payload);
    if (offsets != nullptr) {
      offsets->push_back(at);
    }
    reading.head = at >= 0 ? 0 : reading.head;  // messages are found from the region's beginning
  }
  return reading;
}

void drop_unread(PlannedOp& op, bool has_arc, std::span<const int> sandbox) {
  if (!has_arc) {
    op.head = op.tail = op.final = {};
  }
  for (Partner& partner : op.partners) {
    if (std::ranges::find(sandbox, partner.peer) != sandbox.end()) {
      partner.payload = {};
    }
  }
}

}  // namespace pruned::device
