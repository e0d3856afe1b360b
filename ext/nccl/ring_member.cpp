#include "ring_member.h"

#include <algorithm>
#include <cstring>

#include "arithmetic.h"

namespace pruned {

RingMember::RingMember(const Op& op, Sizes sizes, int rank, const Buffers& buffers, Inlet& left, Outlet& right)
    : plan_(op, sizes, rank),
      kind_(op.kind),
      size_(op.size),
      item_(op.item()),
      slice_elements_(slice_elements(op, sizes)),
      arithmetic_(reduces(op.kind) ? &arithmetic(op.dtype, op.reduce) : nullptr),
      buffers_(buffers),
      left_(left),
      right_(right) {
  if (kind_ == Kind::kReduceScatter) {
    output_first_ = op.sent_blocks()[rank].first;
  } else if (kind_ == Kind::kAllGather) {
    input_first_ = op.received_blocks()[rank].first;
  }
  if (arithmetic_ != nullptr && arithmetic_->scale != nullptr) {
    scaled_.resize(kBlockBytes);
  }
  begin_step();
}

void RingMember::begin_step() {
  slice_ = 0;
  if (!done()) {
    step_ = plan_.step(index_);
  }
}

bool RingMember::advance() {
  if (done() || (step_.receive && !left_.ready()) || (step_.send && !right_.ready())) {
    return false;
  }
  const Slices slices(step_.extent, slice_elements_);
  move(slices[slice_]);
  if (++slice_ == slices.count()) {
    moved_.sends += step_.send ? 1 : 0;
    moved_.receives += step_.receive ? 1 : 0;
    ++index_;
    begin_step();
  }
  return true;
}

void RingMember::verify() const {
  if (step_.receive) {
    left_.verify();
  }
  if (step_.send) {
    right_.verify();
  }
}

void RingMember::move(const Extent& slice) {
  const std::size_t size = bytes(slice);
  const std::byte* received = step_.receive ? left_.front(size, tag(kind_, moved_.receives)).data.data() : nullptr;
  std::byte* slot = step_.send ? right_.slot().data() : nullptr;
  const auto block = static_cast<std::int64_t>(kBlockBytes / item_);
  for (std::int64_t first = slice.first; first < slice.last; first += block) {
    const std::size_t at = static_cast<std::size_t>(first - slice.first) * item_;
    move_block({first, std::min(first + block, slice.last)}, received == nullptr ? nullptr : received + at,
               slot == nullptr ? nullptr : slot + at);
  }
  if (step_.receive) {
    left_.release();
    moved_.received_bytes += static_cast<std::int64_t>(size);
  }
  if (step_.send) {
    right_.publish(size, tag(kind_, moved_.sends));
    moved_.sent_bytes += static_cast<std::int64_t>(size);
  }
}

/// The value is made in the output if it is stored, else in the slot, and copied to the other.
void RingMember::move_block(const Extent& block, const std::byte* received, std::byte* slot) {
  const auto count = static_cast<std::size_t>(block.count());
  const bool stores = step_.store && buffers_.output != nullptr;
  std::byte* value = stores ? buffers_.output + (block.first - output_first_) * item_ : slot;
  if (value == nullptr) {
    return;
  }
  if (step_.reduce) {
    arithmetic_->combine(received, own(block), value, count);
  } else if (const std::byte* source = step_.receive ? received : own(block); source != value) {
    std::memcpy(value, source, bytes(block));
  }
  if (step_.complete && arithmetic_->divide != nullptr) {
    arithmetic_->divide(value, count, size_);
  }
  if (slot != nullptr && slot != value) {
    std::memcpy(slot, value, bytes(block));
  }
}

/// The member's own input to this block, scaled if an average wants that.
const std::byte* RingMember::own(const Extent& block) {
  const std::byte* data = buffers_.input + (block.first - input_first_) * item_;
  if (scaled_.empty()) {
    return data;
  }
  arithmetic_->scale(data, scaled_.data(), static_cast<std::size_t>(block.count()), 1.0 / size_);
  return scaled_.data();
}

}  // namespace pruned
