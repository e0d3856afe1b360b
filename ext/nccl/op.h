// One collective, as one member gives it.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "element.h"

namespace pruned {

/// Elements first .. last of an operation's data.
struct Extent {
  std::int64_t first = 0;
  std::int64_t last = 0;

  constexpr std::int64_t count() const { return last - first; }
  bool operator==(const Extent&) const = default;
};

/// Blocks that lie back to back, one for each member.
class Blocks {
 public:
  explicit Blocks(std::span<const std::int64_t> counts);
  Blocks(int size, std::int64_t each);

  Extent operator[](int member) const { return {starts_[member], starts_[member + 1]}; }
  std::int64_t total() const { return starts_.back(); }
  std::int64_t longest() const;

 private:
  std::vector<std::int64_t> starts_;  // size + 1
};

/// What `count`, `sends` and `receives` mean for each kind, prism/gpu/pruned/__init__.py says; empty lists mean even blocks.
struct Op {
  Kind kind = Kind::kBarrier;
  Dtype dtype = Dtype::kNone;
  Reduce reduce = Reduce::kNone;
  bool tree = false;  // along two trees, not a ring; an all_reduce only
  int root = -1;
  int size = 1;
  std::int64_t count = 0;
  std::vector<std::int64_t> sends = {};
  std::vector<std::int64_t> receives = {};

  std::size_t item() const { return itemsize(dtype); }
  /// The blocks of the input of a reduce_scatter, an all_to_all, or a scatter's root.
  Blocks sent_blocks() const;
  /// The blocks of the output of an all_gather, an all_to_all, or a gather's root.
  Blocks received_blocks() const;
};

/// How many elements this member gives; for a broadcast's other members 0, as for a scatter's.
std::int64_t input_elements(const Op& op, int rank);
/// How many it gets.
std::int64_t output_elements(const Op& op, int rank);

/// Throws std::invalid_argument, which says what is wrong, if there is no such operation.
void validate(const Op& op);

}  // namespace pruned
