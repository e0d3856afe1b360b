// A sandbox member's side of a collective along the ring: the plan of N ranks, carried out slice by slice.

#pragma once

#include <memory>
#include <vector>

#include "activity.h"
#include "fifo.h"
#include "member_plan.h"

namespace pruned {

struct Arithmetic;

/// Where a member's tensors lie; null where it has none.
struct Buffers {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
};

class RingMember final : public Activity {
 public:
  /// `left` and `right` outlive it.
  RingMember(const Op& op, Sizes sizes, int rank, const Buffers& buffers, Inlet& left, Outlet& right);

  bool advance() override;
  bool done() const override { return index_ == plan_.steps(); }
  void verify() const override;

 private:
  void begin_step();
  void move(const Extent& slice);
  void move_block(const Extent& block, const std::byte* received, std::byte* slot);
  const std::byte* own(const Extent& block);
  std::size_t bytes(const Extent& extent) const { return static_cast<std::size_t>(extent.count()) * item_; }

  MemberPlan plan_;
  Kind kind_;
  int size_;
  std::size_t item_;
  std::int64_t slice_elements_;
  const Arithmetic* arithmetic_;  // null if nothing is reduced
  Buffers buffers_;
  std::int64_t input_first_ = 0;  // the element of the operation that the input begins with
  std::int64_t output_first_ = 0;
  Inlet& left_;
  Outlet& right_;

  std::int64_t index_ = 0;  // the step
  MemberStep step_;
  std::int64_t slice_ = 0;
  std::vector<std::byte> scaled_;  // a block of the input of an average
};

}  // namespace pruned
