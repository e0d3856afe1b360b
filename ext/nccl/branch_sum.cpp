#include "branch_sum.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "arithmetic.h"

namespace pruned {

BranchSum::BranchSum(const Branch& branch, const Op& op, const Contribution& brought, const std::byte* replica,
                     std::size_t chunk_bytes, Pool& pool)
    : branch_(branch),
      item_(op.item()),
      chunk_bytes_(chunk_bytes),
      arithmetic_(arithmetic(op.dtype, op.reduce)),
      size_(op.size),
      pool_(pool) {
  const std::byte* given = brought.branches[branch_.slot];
  switch (brought.mode) {
    case Mode::kExact:
      settles_ = !is_root() && given == nullptr;
      instead_ = is_root() || settles_ ? brought.final : given;
      drops_ = true;
      break;
    case Mode::kLeft:
      own_ = branch_.carries ? brought.head : nullptr;
      break;
    case Mode::kPrefolded:
      own_ = given;
      break;
    case Mode::kReplicas:
      replica_ = replica;
      break;
  }
}

Piece BranchSum::make(const Extent& chunk, std::vector<Piece>& below) {
  if (drops_ && instead_ != nullptr) {
    return {.bytes = instead_ + chunk.first * item_, .settled = settles_};
  }
  const auto settled = std::ranges::find_if(below, [](const Piece& piece) { return piece.settled; });
  Piece piece;
  if (settled != below.end() && !drops_) {
    piece = std::move(*settled);
  } else if (!drops_ && (has_own() || !below.empty())) {
    piece = evaluate(branch_.sum, chunk, below);
  }
  if (piece.data == nullptr && (piece.bytes == nullptr || arithmetic_.divide != nullptr)) {
    Piece copy{.data = room()};
    if (piece.bytes == nullptr) {
      arithmetic_.identity(copy.data.get(), static_cast<std::size_t>(chunk.count()));
    } else {
      std::memcpy(copy.data.get(), piece.bytes, bytes(chunk));
    }
    copy.bytes = copy.data.get();
    piece = std::move(copy);
  }
  if (is_root() && !piece.settled && arithmetic_.divide != nullptr) {
    arithmetic_.divide(piece.data.get(), static_cast<std::size_t>(chunk.count()), size_);
  }
  return piece;
}

/// No bytes if there is nothing to add up.
Piece BranchSum::evaluate(const Sum& sum, const Extent& chunk, std::vector<Piece>& below) {
  if (sum.terms.empty()) {
    return sum.operand == Sum::kOwn ? own(chunk) : std::exchange(below[sum.operand], {});
  }
  Piece total;
  for (const Sum& term : sum.terms) {
    Piece next = evaluate(term, chunk, below);
    if (total.bytes == nullptr) {
      total = std::move(next);
    } else if (next.bytes != nullptr) {
      Pool::Buffer out = total.data != nullptr ? std::move(total.data) : room();
      arithmetic_.combine(total.bytes, next.bytes, out.get(), static_cast<std::size_t>(chunk.count()));
      total = {.data = std::move(out)};
      total.bytes = total.data.get();
    }
    if (next.data != nullptr) {
      pool_.give(std::move(next.data), chunk_bytes_);
    }
  }
  return total;
}

/// What the members of the branch add; no bytes if that is nothing.
Piece BranchSum::own(const Extent& chunk) {
  if (replica_ == nullptr) {
    return {.bytes = own_ == nullptr ? nullptr : own_ + chunk.first * item_};
  }
  const std::byte* in = replica_ + chunk.first * item_;
  const auto count = static_cast<std::size_t>(chunk.count());
  Piece piece{.data = room()};
  piece.bytes = piece.data.get();
  if (arithmetic_.scale != nullptr) {
    arithmetic_.scale(in, piece.data.get(), count, 1.0 / size_);
    in = piece.bytes;
  }
  arithmetic_.repeat(in, piece.data.get(), count, static_cast<std::int64_t>(branch_.members.size()));
  return piece;
}

}  // namespace pruned
