// A group on CPU threads: the FIFOs, counts and stashes that its parties would have on devices.

#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "../../tests/harness.h"
#include "../ring_parts.h"

namespace pruned::device::testing {

using pruned::testing::Bytes;

/// Zeroed memory on pages of its own, which cost nothing until they are touched.
class Zeros {
 public:
  explicit Zeros(std::size_t bytes);
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
};

/// What the virtual members before sandbox member b bring; the data outlive the run.
struct Brought {
  Bytes head, tail, final;
  bool has_head = false, has_tail = false, has_final = false;
};

/// One operation for all sandbox members.
struct Act {
  Op op;
  Mode mode = Mode::kExact;
  std::vector<Bytes> inputs;      // by member
  std::vector<Brought> brought;   // by sandbox place, of the arc before it
  std::vector<Bytes> outputs;     // by sandbox place
  int channels = 1;
  int groups = 1;  // of channels, each with loops of its own
  bool lines = false;
  std::int64_t latency = 0, transfer = 0;
};

class Stage {
 public:
  Stage(int size, std::vector<int> sandbox, Sizes sizes);

  /// Runs all parties, each on a thread; `act.outputs` are filled. `moved`: steps, sent, received of each member.
  void run(Act& act);

  const std::vector<int>& sandbox() const { return sandbox_; }
  int size() const { return size_; }
  std::vector<std::array<std::int64_t, 3>> moved;
  std::vector<std::int64_t> posted;  // by place
  std::uint32_t aborted = 0;
  /// Releases of each place, of one entry; empty: nothing is paced.
  std::vector<std::vector<std::int64_t>> releases;

 private:
  struct Place;
  RingJob job(Act& act, int place);
  int arc_members(int place) const;

  int size_;
  std::vector<int> sandbox_;
  Sizes sizes_;
  std::vector<std::shared_ptr<Place>> places_;
  std::uint64_t number_ = 0;
};

/// The elements of a block, as the device's plans have it; an operation's blocks are even.
std::int64_t block_of(const Op& op);

}  // namespace pruned::device::testing
