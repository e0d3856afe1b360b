// The virtual members of one arc in a collective along the ring: right neighbour of a, left neighbour of b.
//
// It takes in whatever has come before it sends, and keeps as much of it as is still to go out again; so a never waits
// for b here, as in a ring of N ranks it would not wait for who is m members away.

#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "activity.h"
#include "arc_plan.h"
#include "contribution.h"
#include "fifo.h"
#include "pace.h"
#include "pool.h"

namespace pruned {

struct Arithmetic;

class VirtualArc final : public Activity {
 public:
  /// `input` is what a publishes, for replicas; null where that is nothing. The FIFOs and the pool outlive the activity.
  VirtualArc(const Op& op, Sizes sizes, const Arc& arc, const Contribution& contribution, std::optional<Times> times,
             std::shared_ptr<Mapping> input, Inlet& from_a, Outlet& to_b, Pool& pool);

  bool advance() override;
  bool done() const override { return moved_.receives == plan_.receives() && moved_.sends == plan_.sends(); }
  std::int64_t due() const override { return due_; }
  void verify() const override;

 private:
  /// What has come of a chunk that goes out again; no data where only its coming matters.
  struct Chunk {
    Extent extent;
    Pool::Buffer data;
    std::int64_t elements = 0;
  };

  bool receive();
  bool send();
  void begin_send();
  void end_send();
  bool here(const Extent& slice) const;
  /// When b has this slice; it must be here.
  std::int64_t release_time(const Extent& slice);
  void make(const Extent& slice, std::byte* slot);
  void add(const Extent& slice, std::byte* slot);
  /// The same elements of as many equal inputs as the recipe says; zeros of those that a does not publish.
  void replicate(const Extent& slice, std::byte* out);
  std::size_t bytes(const Extent& extent) const { return static_cast<std::size_t>(extent.count()) * item_; }
  const std::byte* at(const std::byte* array, const Extent& slice) const { return array + slice.first * item_; }

  ArcPlan plan_;
  Op op_;
  std::size_t item_;
  std::int64_t slice_elements_;
  const Arithmetic* arithmetic_;  // null if nothing is reduced
  Contribution contribution_;
  std::shared_ptr<Mapping> input_;
  Inlet& from_a_;
  Outlet& to_b_;
  Pool& pool_;
  std::optional<Pace> pace_;

  std::int64_t received_slices_ = 0;  // of the chunk that is coming in
  std::deque<Chunk> chunks_;          // what came in, from the oldest that a send still waits for
  std::int64_t dropped_ = 0;          // chunks in front of it

  ArcStep step_;  // of the send that comes next
  Recipe recipe_;
  std::int64_t sent_slices_ = 0;
  std::int64_t due_ = kNever;
  std::vector<std::byte> replicas_;
};

}  // namespace pruned
