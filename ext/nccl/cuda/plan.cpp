#include "plan.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace pruned::device {
namespace {

constexpr std::int64_t kPartBytes = 16 * 1024;  // of a chunk: two packs of each worker
constexpr std::int64_t kLineChunkBytes = 4 * kLineSlotSize;
constexpr std::int64_t kStepBytes = 64 * 1024;  // that a channel could have moved while a step begins and ends
constexpr std::int64_t kStashBytes = 256 << 20;  // what loops side by side may make of the stash

bool keeps_nothing(Mode mode, Kind kind) { return mode == Mode::kExact && reduces(kind); }

BasicCut<EvenBlocks> cut_of(const Planned& planned, int size) {
  return {outline_of(planned, size), EvenBlocks{block_of(planned, size)}, Sizes{}};
}

Part part_of(const prism_device_part& part) {
  return part.path == nullptr ? Part{} : Part{part.path, part.offset, part.nbytes};
}

}  // namespace

PlannedOp planned_of(const prism_device_op& op, int size) {
  if (op.kind < 0 || op.kind > kSendReceive || op.entry < 0 || op.count < 0) {
    throw std::invalid_argument("no such planned operation: kind " + std::to_string(op.kind) + ", entry " +
                                std::to_string(op.entry) + ", count " + std::to_string(op.count));
  }
  PlannedOp result{.planned = {.kind = op.kind,
                               .dtype = op.dtype,
                               .reduce = op.reduce == kPremultiplied ? static_cast<int>(Reduce::kSum) : op.reduce,
                               .root = op.root,
                               .count = op.count,
                               .op = op.op,
                               .entry = op.entry,
                               .latency = op.latency,
                               .transfer = op.transfer},
                   .head = part_of(op.head),
                   .tail = part_of(op.tail),
                   .final = part_of(op.final),
                   .partners = {},
                   .uneven = op.uneven != 0};
  for (int i = 0; i < op.partners_size; ++i) {
    const prism_device_partner& partner = op.partners[i];
    if (partner.peer < 0 || partner.peer >= size) {
      throw std::invalid_argument("partner " + std::to_string(partner.peer) + " is none of " + std::to_string(size));
    }
    result.partners.push_back({partner.peer, partner.sends != 0, partner.nbytes, part_of(partner.payload)});
  }
  return result;
}

Outline outline_of(const Planned& planned, int size) {
  if (static_cast<Kind>(planned.kind) == Kind::kBarrier) {  // NCCL's is an all_reduce of one element
    return {.kind = Kind::kAllReduce, .root = -1, .size = size, .count = 1, .item = 4};
  }
  return {.kind = static_cast<Kind>(planned.kind),
          .root = planned.root,
          .size = size,
          .count = planned.count,
          .item = static_cast<std::int64_t>(itemsize(static_cast<Dtype>(planned.dtype)))};
}

std::int64_t block_of(const Planned& planned, int size) {
  const auto kind = static_cast<Kind>(planned.kind);
  return kind == Kind::kReduceScatter ? planned.count / size : kind == Kind::kAllGather ? planned.count : 0;
}

std::int64_t longest_chunk_bytes(const Planned& planned, int size) {
  return cut_of(planned, size).longest() * outline_of(planned, size).item;
}

/// What loops side by side have room for; in a chain no step waits for another's way round, so nothing is gained.
std::int64_t most_groups(const Outline& outline, Mode mode, std::int64_t chunk) {
  if (is_chain(outline.kind)) {
    return 1;
  }
  return keeps_nothing(mode, outline.kind) ? kMaxChannels : std::max(kStashBytes / (outline.size * chunk), std::int64_t{1});
}

Width width_for(int wanted, int sharing) {
  return {.wanted = wanted, .most = std::max(kMaxChannels / std::max(sharing, 1), 1)};
}

/// A small chunk is cut into parts, as all channels are wanted; a large one is left whole, and channels do different
/// loops, as steps then are fewer and longer. In between, what takes a channel the least time.
Shape shape_of(const Planned& planned, int size, Mode mode, const Width& width) {
  const Outline outline = outline_of(planned, size);
  const std::int64_t chunk = std::max(longest_chunk_bytes(planned, size), std::int64_t{1});
  const std::int64_t loops = std::max(cut_of(planned, size).loops(), std::int64_t{1});
  const bool lines = chunk <= kLineChunkBytes;
  const std::int64_t channels = width.wanted > 0 ? std::min(width.wanted, kMaxChannels) : width.most;
  const std::int64_t fitting = width.wanted > 0 ? channels : divided_up(chunk, lines ? kLineSlotSize : kPartBytes);
  const std::int64_t most_parts = std::min({channels, fitting, divided_up(chunk, 16)});
  const std::int64_t most = std::min({channels, loops, most_groups(outline, mode, chunk)});
  std::int64_t best = 1, least = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t groups = 1; groups <= most; ++groups) {
    const std::int64_t parts = std::min(most_parts, channels / groups);
    const std::int64_t cost = divided_up(loops, groups) * (kStepBytes + chunk / parts);
    if (cost < least) {
      best = groups;
      least = cost;
    }
  }
  const auto parts = static_cast<int>(std::min(most_parts, channels / best));
  return {.channels = static_cast<int>(best) * parts, .parts = parts, .lines = lines};
}

Stash stash_of(const Planned& planned, int size, int members, Mode mode, const Shape& shape) {
  const Outline outline = outline_of(planned, size);
  Stash stash;
  stash.window = is_chain(outline.kind) ? 16 : size;
  if (keeps_nothing(mode, outline.kind)) {
    return stash;  // nothing is kept but, where time is kept, arrivals
  }
  const EvenArcPlan plan(outline, EvenBlocks{block_of(planned, size)}, Sizes{}, Arc{size, 0, members});
  const bool forwards = plan.chain() || members < plan.per_loop();
  const std::int64_t chunk = longest_chunk_bytes(planned, size);
  stash.stride = forwards ? divided_up(divided_up(chunk, 16), shape.parts) * 16 : 0;
  return stash;
}

std::int64_t stash_bytes(const Stash& stash, const Shape& shape) {
  return stash.window * shape.channels * stash.stride;
}

std::string describe(std::int32_t kind, std::int32_t dtype, std::int32_t reduce, std::int64_t count, int root) {
  static constexpr const char* kKinds[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
                                           "gather",     "scatter",        "all_to_all", "barrier",   "message"};
  static constexpr const char* kTypes[] = {
      "none",     "uint8",     "int8",       "int16",         "int32",       "int64",  "float16",
      "bfloat16", "float32",   "float64",    "bool",          "complex64",   "complex128",
      "float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64", "float8_e4m3fnuz", "float8_e5m2fnuz"};
  static constexpr const char* kReductions[] = {"",     " sum",  " avg", " product", " min",
                                                " max", " band", " bor", " bxor"};
  std::string text = std::string(kind >= 0 && kind < 10 ? kKinds[kind] : "?") +
                     (reduce >= 0 && reduce < 9 ? kReductions[reduce] : " ?") + " of " + std::to_string(count) + " " +
                     (dtype >= 0 && dtype < 20 ? kTypes[dtype] : "?");
  return root >= 0 ? text + ", root " + std::to_string(root) : text;
}

}  // namespace pruned::device
