// A sandbox member's side of gather, scatter and all_to_all: blocks out and in at one time, each in the order of steps.
//
// No ring of members that wait for each other can close: who sends at step k waits for a receiver that is still at an
// earlier step, which waits for a sender that is at an earlier step still; at step 1 everybody receives.

#pragma once

#include <optional>
#include <vector>

#include "exchange.h"
#include "pairs.h"
#include "ports.h"
#include "ring_member.h"

namespace pruned {

class PairwiseMember final : public Activity {
 public:
  /// `ports` outlive it.
  PairwiseMember(const Op& op, const Buffers& buffers, Ports& ports);

  bool advance() override;
  bool done() const override { return !sending_.has_value() && !receiving_.has_value(); }
  void verify() const override;

 private:
  void begin_send();
  void begin_receive();
  bool send();
  bool receive();

  Kind kind_;
  int size_;
  int rank_;
  std::size_t item_;
  Buffers buffers_;
  Ports& ports_;
  std::vector<Exchange> outgoing_;
  std::vector<Exchange> incoming_;
  std::optional<Sending> sending_;
  std::optional<Receiving> receiving_;
  Outlet* outlet_ = nullptr;
  Inlet* inlet_ = nullptr;
};

}  // namespace pruned
