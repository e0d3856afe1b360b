#include "virtual_arc.h"

#include <cstring>
#include <utility>

#include "arithmetic.h"

namespace pruned {

VirtualArc::VirtualArc(const Op& op, Sizes sizes, const Arc& arc, const Contribution& contribution,
                       std::optional<Times> times, std::shared_ptr<Mapping> input, Inlet& from_a, Outlet& to_b,
                       Pool& pool)
    : plan_(op, sizes, arc),
      op_(op),
      item_(op.item()),
      slice_elements_(slice_elements(op, sizes)),
      arithmetic_(reduces(op.kind) ? &arithmetic(op.dtype, op.reduce) : nullptr),
      contribution_(contribution),
      input_(std::move(input)),
      from_a_(from_a),
      to_b_(to_b),
      pool_(pool) {
  if (times.has_value()) {
    pace_.emplace(plan_, *std::move(times));
  }
  begin_send();
}

bool VirtualArc::advance() {
  const bool received = receive();
  return send() || received;
}

void VirtualArc::verify() const {
  if (moved_.receives < plan_.receives()) {
    from_a_.verify();
  }
  if (moved_.sends < plan_.sends()) {
    to_b_.verify();
  }
}

// -- in --------------------------------------------------------------------------------------------------------------

bool VirtualArc::receive() {
  if (moved_.receives == plan_.receives() || !from_a_.ready()) {
    return false;
  }
  const Extent extent = plan_.received(moved_.receives);
  const Slices slices(extent, slice_elements_);
  const Extent slice = slices[received_slices_];
  const Slice in = from_a_.front(bytes(slice), tag(op_.kind, moved_.receives));
  if (received_slices_ == 0) {
    const bool kept = plan_.forwards(moved_.receives) && !(contribution_.mode == Mode::kExact && reduces(op_.kind));
    chunks_.push_back({.extent = extent, .data = kept ? pool_.take(bytes(extent)) : nullptr});
  }
  Chunk& chunk = chunks_.back();
  if (chunk.data != nullptr) {
    std::memcpy(chunk.data.get() + bytes({extent.first, slice.first}), in.data.data(), in.data.size());
  }
  chunk.elements += slice.count();
  moved_.received_bytes += static_cast<std::int64_t>(in.data.size());
  from_a_.release();
  if (++received_slices_ == slices.count()) {
    received_slices_ = 0;
    ++moved_.receives;
    if (pace_.has_value()) {
      pace_->arrived(in.stamp);
    }
  }
  return true;
}

// -- out -------------------------------------------------------------------------------------------------------------

bool VirtualArc::send() {
  due_ = kNever;
  if (moved_.sends == plan_.sends()) {
    return false;
  }
  const Slices slices(step_.extent, slice_elements_);
  const Extent slice = slices[sent_slices_];
  if (!to_b_.ready() || !here(slice)) {
    return false;
  }
  const std::int64_t time = release_time(slice), at = let_go(time);
  if (now() < at) {
    due_ = at;
    return false;
  }
  make(slice, to_b_.slot().data());
  to_b_.publish(bytes(slice), tag(op_.kind, moved_.sends), time);
  moved_.sent_bytes += static_cast<std::int64_t>(bytes(slice));
  if (++sent_slices_ == slices.count()) {
    end_send();
  }
  return true;
}

void VirtualArc::begin_send() {
  if (moved_.sends < plan_.sends()) {
    step_ = plan_.step(moved_.sends);
    recipe_ = recipe(step_, op_.kind, contribution_, plan_.arc().members);
  }
}

void VirtualArc::end_send() {
  for (; dropped_ <= plan_.needs(moved_.sends); ++dropped_) {
    Chunk& chunk = chunks_.front();
    if (chunk.data != nullptr) {
      pool_.give(std::move(chunk.data), bytes(chunk.extent));
    }
    chunks_.pop_front();
  }
  sent_slices_ = 0;
  ++moved_.sends;
  begin_send();
}

/// Whether what this slice waits for has come: the whole of a chunk where time is kept, or where it only has to come.
bool VirtualArc::here(const Extent& slice) const {
  const std::int64_t needed = plan_.needs(moved_.sends);
  if (needed < moved_.receives) {
    return true;
  }
  const bool coming = needed == moved_.receives && received_slices_ > 0;
  return coming && !pace_.has_value() && step_.delayed && chunks_.back().elements >= slice.last - step_.extent.first;
}

/// The slices of a chunk go out evenly over the time that it takes.
std::int64_t VirtualArc::release_time(const Extent& slice) {
  if (!pace_.has_value()) {
    return now();
  }
  std::int64_t time = pace_->release(moved_.sends);
  if (const std::int64_t left = step_.extent.last - slice.last; left > 0) {
    time -= static_cast<std::int64_t>(static_cast<double>(pace_->transfer(moved_.sends)) * static_cast<double>(left) /
                                      static_cast<double>(step_.extent.count()));
  }
  return time;
}

void VirtualArc::make(const Extent& slice, std::byte* slot) {
  const auto count = static_cast<std::size_t>(slice.count());
  switch (recipe_.base) {
    case Source::kArray:
      std::memcpy(slot, recipe_.base_array + slice.first * item_, bytes(slice));
      break;
    case Source::kDelayed:
      add(slice, slot);
      break;
    case Source::kReplicas:
      replicate(slice, slot);
      break;
    case Source::kIdentity:
      arithmetic_->identity(slot, count);
      break;
    case Source::kZeros:
    case Source::kNothing:
      std::memset(slot, 0, bytes(slice));
      break;
  }
  if (recipe_.complete && arithmetic_->divide != nullptr) {
    arithmetic_->divide(slot, count, op_.size);
  }
}

/// What came in, with the arc's inputs added.
void VirtualArc::add(const Extent& slice, std::byte* slot) {
  const Chunk& chunk = chunks_[plan_.needs(moved_.sends) - dropped_];
  const std::byte* in = chunk.data.get() + bytes({chunk.extent.first, slice.first});
  const auto count = static_cast<std::size_t>(slice.count());
  switch (recipe_.added) {
    case Source::kArray:
      arithmetic_->combine(in, recipe_.added_array + slice.first * item_, slot, count);
      break;
    case Source::kReplicas:
      replicas_.resize(kSlotBytes);
      replicate(slice, replicas_.data());
      arithmetic_->combine(in, replicas_.data(), slot, count);
      break;
    default:
      std::memcpy(slot, in, bytes(slice));
  }
}

void VirtualArc::replicate(const Extent& slice, std::byte* out) {
  const auto count = static_cast<std::size_t>(slice.count());
  if (input_ == nullptr) {
    std::memset(out, 0, bytes(slice));
    return;
  }
  // Of an all_gather that is a's own block, in the place of each other's.
  const std::int64_t first = op_.kind == Kind::kAllGather ? op_.received_blocks()[step_.owner].first : 0;
  const std::byte* in = input_->data() + (slice.first - first) * item_;
  if (arithmetic_ == nullptr) {
    std::memcpy(out, in, bytes(slice));
    return;
  }
  if (arithmetic_->scale != nullptr) {
    arithmetic_->scale(in, out, count, 1.0 / op_.size);
    in = out;
  }
  arithmetic_->repeat(in, out, count, recipe_.copies);
}

}  // namespace pruned
