// The branches of virtual members that one sandbox member keeps, in an all_reduce along two trees.

#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "branch_relay.h"

namespace pruned {

class VirtualBranches final : public Activity {
 public:
  /// `branches`, `ports` and `pool` outlive it. `input`: the keeper's published input, for replicas only.
  VirtualBranches(const std::vector<Branch>& branches, const Op& op, Sizes sizes, const TreeShape& shape,
                  const Contribution& contribution, const std::optional<Times>& times, std::shared_ptr<Mapping> input,
                  Ports& ports, Pool& pool);

  bool advance() override;
  bool done() const override;
  std::int64_t due() const override;
  void verify() const override;

 private:
  std::shared_ptr<Mapping> input_;
  std::vector<std::unique_ptr<BranchRelay>> relays_;
};

}  // namespace pruned
