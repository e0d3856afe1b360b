// What a branch of virtual members makes of a chunk of an all_reduce along two trees: of what came from below, and of what
// its members bring.

#pragma once

#include <cstdint>
#include <vector>

#include "branch.h"
#include "contribution.h"
#include "cut.h"
#include "pool.h"

namespace pruned {

struct Arithmetic;

/// A chunk on its way: where its bytes are, and its s(k) (tree_pace.h).
struct Piece {
  Pool::Buffer data = nullptr;
  const std::byte* bytes = nullptr;
  bool settled = false;
  std::int64_t begun = 0;
};

class BranchSum {
 public:
  /// `branch` and `pool` outlive it; `replica` is the published input, for replicas; chunks are of `chunk_bytes` at most.
  BranchSum(const Branch& branch, const Op& op, const Contribution& brought, const std::byte* replica,
            std::size_t chunk_bytes, Pool& pool);

  /// Whether the bytes from below are wanted; else they are of no use but to be waited for.
  bool wants_bytes() const { return !drops_; }

  /// The sum that goes up, or the result if the root is in the branch. `below`: this chunk from each of those below; a
  /// piece whose buffer becomes the sum's loses it.
  Piece make(const Extent& chunk, std::vector<Piece>& below);

 private:
  Piece evaluate(const Sum& sum, const Extent& chunk, std::vector<Piece>& below);
  Piece own(const Extent& chunk);
  bool has_own() const { return own_ != nullptr || replica_ != nullptr; }
  bool is_root() const { return branch_.above < 0; }
  std::size_t bytes(const Extent& chunk) const { return static_cast<std::size_t>(chunk.count()) * item_; }
  Pool::Buffer room() { return pool_.take(chunk_bytes_); }

  const Branch& branch_;
  std::size_t item_;
  std::size_t chunk_bytes_;
  const Arithmetic& arithmetic_;
  int size_;
  Pool& pool_;
  const std::byte* own_ = nullptr;      // what the branch's members add, by the operation's elements
  const std::byte* replica_ = nullptr;  // what each of them adds
  const std::byte* instead_ = nullptr;  // what is sent up in place of a sum, or is the result
  bool settles_ = false;
  bool drops_ = false;
};

}  // namespace pruned
