// What the process of a sandbox rank is told before its program begins: groups, and their operations in order.

#pragma once

#include <string>
#include <vector>

#include "api.h"
#include "job.h"

namespace pruned::device {

struct Part {
  std::string path;
  std::int64_t offset = 0, nbytes = 0;
};

struct Partner {
  int peer = -1;  // group rank
  bool sends = false;
  std::int64_t bytes = 0;
  Part payload = {};
};

/// One planned operation of a group.
struct PlannedOp {
  Planned planned;
  Part head, tail, final;
  std::vector<Partner> partners;
  bool uneven = false;  // one block of a collective of uneven blocks
};

constexpr std::int32_t kSendReceive = 9;  // OpKind.SEND_RECV, which is no collective
constexpr std::int32_t kPremultiplied = 9;  // in REDUCES, and a sum to the engine

/// Throws std::invalid_argument.
PlannedOp planned_of(const prism_device_op& op, int size);

inline bool is_exchange(std::int32_t kind) {
  return kind == kSendReceive || kind == static_cast<std::int32_t>(Kind::kAllToAll) ||
         kind == static_cast<std::int32_t>(Kind::kGather) || kind == static_cast<std::int32_t>(Kind::kScatter);
}

/// How many CTAs an operation gets for each party, how many of them share a chunk, and whether slices go in lines.
struct Shape {
  int channels = 1;
  int parts = 1;
  bool lines = false;
};

/// Of a collective along the ring or a chain.
Outline outline_of(const Planned& planned, int size);
std::int64_t block_of(const Planned& planned, int size);
/// How many channels the user wants, 0 for what suits, and how many there may be then.
struct Width {
  int wanted = 0;
  int most = kMaxChannels;
};

/// Of so many sandbox ranks that share a device: kernels of several processes begin there a part at a time, and those
/// that wait for each other have to fit all together.
Width width_for(int wanted, int sharing);
/// The same for all sandbox members.
Shape shape_of(const Planned& planned, int size, Mode mode, const Width& width);
/// The layout of the stash of an arc of so many members, and the bytes that it takes.
Stash stash_of(const Planned& planned, int size, int members, Mode mode, const Shape& shape);
std::int64_t stash_bytes(const Stash& stash, const Shape& shape);

/// In words, for errors.
std::string describe(std::int32_t kind, std::int32_t dtype, std::int32_t reduce, std::int64_t count, int root);

}  // namespace pruned::device
