// The virtual members as the partners of one sandbox member in gather, scatter and all_to_all.
//
// They share two FIFOs with it, as it goes from one to the next in the order of steps. What it sends them is dropped.

#pragma once

#include <optional>
#include <vector>

#include "exchange.h"
#include "pair_pace.h"
#include "pairs.h"
#include "ports.h"

namespace pruned {

class Peers final : public Activity {
 public:
  /// `data` is the result of the member, null for zeros; `ports`, of the peers, outlive the activity.
  Peers(const Op& op, const std::byte* data, std::optional<Times> times, Ports& ports);

  bool advance() override;
  bool done() const override { return !sending_.has_value() && !receiving_.has_value(); }
  std::int64_t due() const override { return due_; }
  void verify() const override;

 private:
  void begin_send();
  void begin_receive();
  bool send();
  bool receive();
  bool ours(const Exchange& exchange) const { return !ports_.in_sandbox(exchange.peer); }

  Kind kind_;
  int size_;
  int rank_;
  std::size_t item_;
  const std::byte* data_;
  const Ports& ports_;
  Inlet& from_;
  Outlet& to_;
  std::vector<Exchange> to_member_;  // what the member receives, from sandbox members too
  std::vector<Exchange> from_member_;
  std::optional<PairPace> pace_;
  std::size_t next_send_ = 0;
  std::size_t next_receive_ = 0;
  std::optional<Sending> sending_;
  std::optional<Receiving> receiving_;
  std::int64_t due_ = kNever;
};

}  // namespace pruned
