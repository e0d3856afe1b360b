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
/// The same for all sandbox members. `wanted`: 0, or how many channels the user wants.
Shape shape_of(const Planned& planned, int size, Mode mode, int wanted);
/// The layout of the stash of an arc of so many members, and the bytes that it takes.
Stash stash_of(const Planned& planned, int size, int members, Mode mode, const Shape& shape);
std::int64_t stash_bytes(const Stash& stash, const Shape& shape);

/// In words, for errors.
std::string describe(std::int32_t kind, std::int32_t dtype, std::int32_t reduce, std::int64_t count, int root);

}  // namespace pruned::device
