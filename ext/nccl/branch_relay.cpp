#include "branch_relay.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace pruned {
namespace {

Party member(int rank) { return {Party::Role::kMember, rank}; }

}  // namespace

BranchRelay::BranchRelay(const Branch& branch, const TreeOp& all, Ports& ports, Pool& pool)
    : branch_(branch),
      cut_(all.cut),
      item_(all.op.item()),
      chunk_bytes_(static_cast<std::size_t>(all.cut.chunk_elements()) * all.op.item()),
      pool_(pool),
      sum_(branch, all.op, all.contribution, all.replica, chunk_bytes_, pool) {
  if (all.times != nullptr) {
    pace_.emplace(branch, all.shape.depth(), std::max(cut_.chunks(0), cut_.chunks(1)), *all.times);
  }
  connect(ports);
}

void BranchRelay::connect(Ports& ports) {
  for (const auto& [rank, hops] : branch_.below) {
    const LowerEdge edge = lower_edge(ports, branch_.tree, rank, member(rank));
    below_.push_back({.inlet = edge.up, .from = static_cast<int>(below_.size())});
    outs_.push_back({.outlet = edge.down, .hops = hops, .results = true});
  }
  if (!is_root()) {
    const UpperEdge edge = upper_edge(ports, branch_.tree, branch_.top, member(branch_.above));
    above_ = In{.inlet = edge.down, .from = BranchPace::kAbove};
    outs_.push_back({.outlet = edge.up, .hops = 0, .results = false});
  }
}

bool BranchRelay::done() const {
  const std::int64_t chunks = cut_.chunks(branch_.tree);
  return (!above_.has_value() || above_->received == chunks) &&
         std::ranges::all_of(outs_, [&](const Out& out) { return out.sent == chunks; });
}

bool BranchRelay::advance() {
  due_ = kNever;
  bool moved = false;
  for (In& in : below_) {
    moved = receive(in) || moved;
  }
  if (above_.has_value()) {
    moved = receive(*above_) || moved;
  }
  moved = add_up() || moved;
  for (Out& out : outs_) {
    moved = send(out) || moved;
  }
  drop();
  return moved;
}

void BranchRelay::verify() const {
  const std::int64_t chunks = cut_.chunks(branch_.tree);
  const auto check = [&](const In& in) {
    if (in.received < chunks) {
      in.inlet->verify();
    }
  };
  std::ranges::for_each(below_, check);
  if (above_.has_value()) {
    check(*above_);
  }
  for (const Out& out : outs_) {
    if (out.sent < chunks) {
      out.outlet->verify();
    }
  }
}

// -- in --------------------------------------------------------------------------------------------------------------

bool BranchRelay::receive(In& in) {
  if (in.received == cut_.chunks(branch_.tree) || !in.inlet->ready()) {
    return false;
  }
  const Extent chunk = cut_.chunk(branch_.tree, in.received);
  const Slice slice = tree_front(*in.inlet, bytes(chunk), in.received);
  Piece piece{.settled = is_settled(slice)};
  if (in.from == BranchPace::kAbove ? !branch_.below.empty() : sum_.wants_bytes()) {
    piece.data = pool_.take(chunk_bytes_);
    std::memcpy(piece.data.get(), slice.data.data(), slice.data.size());
    piece.bytes = piece.data.get();
  }
  if (pace_.has_value()) {
    piece.begun = pace_->arrived(in.from, in.received, slice.stamp);
  }
  moved_.received_bytes += static_cast<std::int64_t>(slice.data.size());
  ++moved_.receives;
  in.inlet->release();
  in.pieces.push_back(std::move(piece));
  ++in.received;
  return true;
}

/// Makes the next sum, if all of it has come.
bool BranchRelay::add_up() {
  if (summed_ == cut_.chunks(branch_.tree) ||
      std::ranges::any_of(below_, [](const In& in) { return in.pieces.empty(); })) {
    return false;
  }
  std::vector<Piece> below;
  std::vector<std::int64_t> begun;
  for (In& in : below_) {
    below.push_back(std::move(in.pieces.front()));
    begun.push_back(below.back().begun);
    in.pieces.pop_front();
  }
  Piece piece = sum_.make(cut_.chunk(branch_.tree, summed_), below);
  if (pace_.has_value()) {
    piece.begun = pace_->summed(begun);
  }
  for (Piece& used : below) {
    if (used.data != nullptr) {
      pool_.give(std::move(used.data), chunk_bytes_);
    }
  }
  sums_.push_back(std::move(piece));
  ++summed_;
  return true;
}

// -- out -------------------------------------------------------------------------------------------------------------

bool BranchRelay::send(Out& out) {
  const std::int64_t chunks = cut_.chunks(branch_.tree);
  std::deque<Piece>& pieces = queue(out.results);
  const auto place = static_cast<std::size_t>(out.sent - dropped(out.results));
  if (out.sent == chunks || place >= pieces.size() || !out.outlet->ready()) {
    return false;
  }
  const Piece& piece = pieces[place];
  if (pace_.has_value()) {
    const std::int64_t time = pace_->there(piece.begun, out.hops, out.sent);
    if (now() < time) {
      due_ = std::min(due_, time);
      return false;
    }
  }
  const std::size_t size = bytes(cut_.chunk(branch_.tree, out.sent));
  std::memcpy(out.outlet->slot().data(), piece.bytes, size);
  out.outlet->publish(size, tree_tag(out.sent, !out.results && piece.settled));
  ++moved_.sends;
  moved_.sent_bytes += static_cast<std::int64_t>(size);
  ++out.sent;
  return true;
}

/// Lets go of what all have sent.
void BranchRelay::drop() {
  for (const bool results : {false, true}) {
    std::int64_t sent = std::numeric_limits<std::int64_t>::max();
    for (const Out& out : outs_) {
      if (out.results == results || is_root()) {
        sent = std::min(sent, out.sent);
      }
    }
    std::deque<Piece>& pieces = queue(results);
    for (std::int64_t& gone = dropped(results); gone < sent && !pieces.empty(); ++gone) {
      if (pieces.front().data != nullptr) {
        pool_.give(std::move(pieces.front().data), chunk_bytes_);
      }
      pieces.pop_front();
    }
  }
}

}  // namespace pruned
