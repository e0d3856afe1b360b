// What a kernel is told of one collective along the ring or a chain.

#pragma once

#include "../arc_plan.h"
#include "../contribution.h"
#include "fifo_memory.h"
#include "merge.h"

namespace pruned::device {

using EvenMemberPlan = BasicMemberPlan<EvenBlocks>;
using EvenArcPlan = BasicArcPlan<EvenBlocks>;

/// Where virtual members' data lie, and that they are there: written by the thread that reads ahead.
struct Payload {
  const std::byte* head;
  const std::byte* tail;
  const std::byte* final;
  std::uint64_t ready;
};

/// A planned operation, as the device keeps it: what a launch is held to, and what it needs that the call does not say.
struct Planned {
  std::int32_t kind, dtype, reduce, root;
  std::int64_t count;
  std::int64_t op;     // on the board; -1: it is not shown
  std::int64_t entry;  // among the rank's operations
  std::int64_t latency, transfer;
};

/// What an arc keeps of what has come in and goes out again. Counts run on: the operation's number is their upper half.
struct Stash {
  std::byte* data = nullptr;
  std::int64_t stride = 0;        // bytes of a channel's part of a chunk
  std::int64_t window = 1;        // chunks
  std::int64_t* arrivals = nullptr;  // a running maximum for each chunk and channel, where time is kept
  std::uint64_t* received = nullptr;  // by channel, 16 words apart
  std::uint64_t* sent = nullptr;
};

constexpr int kCountStride = 16;  // words: counts of channels are on lines of their own

/// Host memory that the device sees; null: nobody looks.
struct Shown {
  std::int64_t* posted = nullptr;           // board: by op, of this rank
  std::int64_t* moved = nullptr;            // board: steps, sent, received, by op
  const std::int64_t* releases = nullptr;   // as releases.h says
  std::uint64_t* ended = nullptr;           // by entry: 1 once it is over
  std::uint32_t* looked = nullptr;          // by entry: 1 hit, 2 not there yet
  const Payload* detours = nullptr;         // by entry: what came by the host's memory alone
  std::uint32_t* failed = nullptr;          // not 0: the number, and 1, of an operation that is not what was planned
  const volatile std::uint32_t* aborted = nullptr;
};

/// What the CTAs of one operation add up.
struct Tally {
  std::uint32_t finished;  // CTAs
  std::uint64_t moved[3];  // steps, bytes sent, bytes received
};

/// With the arc on another device, a root that only sends is ahead of it by as many operations as a FIFO has slots.
constexpr std::uint64_t kUnderWay = 2 * kSlotCount;

/// Device memory of a group that counts its operations.
struct Progress {
  std::uint64_t number;  // the operation that comes next
  Tally tallies[kUnderWay];

  PRUNED_HD Tally& of(std::uint64_t operation) { return tallies[operation % kUnderWay]; }
};

struct RingJob {
  Outline outline;
  std::int64_t block = 0;  // elements of each block
  Sizes sizes;
  Dtype dtype = Dtype::kNone;
  int rank = 0;
  Mode mode = Mode::kExact;
  Rule rule;                      // of this member's input
  const void* scale = nullptr;    // in device memory; overrides the factor
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  const std::byte* published = nullptr;  // for replicas: the input, as it was before the operation

  FifoChannel* left = nullptr;   // to this member
  FifoChannel* right = nullptr;  // from it
  int arc_members = 0;           // before this member; 0: a sandbox member is
  FifoChannel* arc_in = nullptr;
  FifoCredits* left_credits = nullptr;   // where both ends are of this process; else null
  FifoCredits* right_credits = nullptr;

  Stash stash;
  int channels = 1;
  int parts = 1;       // of each chunk, a channel each; channels beyond them do other loops
  bool lines = false;  // slices go in lines

  const Planned* planned = nullptr;  // of the group
  Payload* payloads = nullptr;       // by entry
  std::int64_t number = -1;          // among the planned ones; -1: the next, by `progress`
  std::int64_t planned_count = 0;
  Progress* progress = nullptr;
  Shown shown;
  std::int64_t clock_offset = 0;
  bool system = false;  // some party is on another device, or in another process

  constexpr EvenBlocks blocks() const { return {block}; }
  constexpr int part(int channel) const { return channel % parts; }
  /// The operation with the loops of a channel.
  constexpr Outline outline_of(int channel) const {
    Outline own = outline;
    own.turns = {.first = channel / parts, .stride = channels / parts};
    return own;
  }
  constexpr Arc arc() const {
    return {outline.size, wrapped(rank - arc_members - 1, outline.size), arc_members};
  }
};

/// ByteRange `first` to `last` of an operation's data.
using ByteRange = Extent;

/// One of the parts of a chunk: in units of 16 bytes, the last parts have what is left. A chunk has less than 64 GiB.
constexpr ByteRange part_of(const Extent& chunk, std::int64_t item, int part, int parts) {
  const ByteRange all{chunk.first * item, chunk.last * item};
  const auto units = static_cast<std::uint32_t>((all.count() + 15) >> 4);
  const std::int64_t each = std::int64_t{(units + parts - 1) / static_cast<std::uint32_t>(parts)} << 4;
  const std::int64_t first = std::min(all.first + part * each, all.last);
  return {first, std::min(first + each, all.last)};
}

/// The slices of a part; an empty one has one empty slice, as a step is taken all the same.
class PartSlices {
 public:
  constexpr PartSlices(const ByteRange& part, bool lines) : part_(part), shift_(lines ? kLineSlotShift : kSlotShift) {}

  constexpr int count() const {
    return part_.count() == 0 ? 1 : static_cast<int>((part_.count() + (std::int64_t{1} << shift_) - 1) >> shift_);
  }
  constexpr ByteRange operator[](int index) const {
    const std::int64_t first = part_.first + (std::int64_t{index} << shift_);
    return {first, std::min(first + (std::int64_t{1} << shift_), part_.last)};
  }

 private:
  ByteRange part_;
  int shift_;
};

}  // namespace pruned::device
