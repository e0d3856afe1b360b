// What a kernel is told of the messages of one group call.

#pragma once

#include "job.h"

namespace pruned::device {

constexpr int kMaxMessages = 32;  // of a launch

struct MessageItem {
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
  bool sends = false;
  FifoChannel* fifo = nullptr;  // to or from a sandbox member; null: the peer is virtual
  std::int64_t payload = -1;    // where in the entry's payload what a virtual peer sends begins; -1: zeros
  std::int32_t partner = 0;     // among the planned ones
  int channels = 1;             // CTAs that carry it, the same at both ends
};

/// When the message of a partner is there: once its post and those before it are over, `before` and `cost` after them.
struct PartnerTime {
  std::int64_t before;  // ns: what the messages before this one cost
  std::int64_t cost;    // ns: of this one
  std::int32_t order;   // among those that come in; -1: it is waited for by nobody else
};

struct MessageJob {
  MessageItem items[kMaxMessages];
  int count = 0;
  int channels = 1;  // the most of any item
  bool first = true;  // of the launches of the operation
  bool last = true;
  std::int64_t number = 0;  // among the group's planned ones
  std::int64_t entry = 0;
  std::int64_t op = -1;  // on the board
  Payload* payloads = nullptr;
  const PartnerTime* times = nullptr;
  int partners = 0;
  std::byte* sink = nullptr;  // where what virtual members get ends; all write there at once, and nobody reads
  Progress* progress = nullptr;
  Shown shown;
  std::int64_t clock_offset = 0;
};

}  // namespace pruned::device
