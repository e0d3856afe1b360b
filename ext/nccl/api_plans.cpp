#include <stdexcept>
#include <string>

#include "arc_plan.h"
#include "guard.h"
#include "pace.h"
#include "virtual_branches.h"

namespace {

using namespace pruned;

ArcPlan arc_plan(const pruned_op& op, const pruned_membership& membership) {
  const Membership members = membership_of(membership);
  const auto arc = arc_after(members.size, members.sandbox, members.rank);
  if (!arc.has_value()) {
    throw std::invalid_argument("there is no arc after member " + std::to_string(members.rank));
  }
  const Op converted = op_of(op);
  validate(converted);
  return ArcPlan(converted, Sizes{}, *arc);
}

}  // namespace

std::int64_t pruned_member_plan(const pruned_op* op, std::int32_t rank, pruned_member_step* steps) {
  std::int64_t count = -1;
  guarded([&] {
    const Op converted = op_of(*op);
    validate(converted);
    const MemberPlan plan(converted, Sizes{}, rank);
    for (std::int64_t i = 0; steps != nullptr && i < plan.steps(); ++i) {
      const MemberStep step = plan.step(i);
      steps[i] = {step.receive, step.reduce, step.store, step.send, step.complete, step.extent.first, step.extent.last};
    }
    count = plan.steps();
    return PRUNED_DONE;
  });
  return count;
}

std::int64_t pruned_arc_plan(const pruned_op* op, const pruned_membership* membership, pruned_arc_step* steps) {
  std::int64_t count = -1;
  guarded([&] {
    const ArcPlan plan = arc_plan(*op, *membership);
    for (std::int64_t i = 0; steps != nullptr && i < plan.sends(); ++i) {
      const ArcStep step = plan.step(i);
      steps[i] = {step.delayed, step.adders,       step.total,      step.complete,
                  step.owner,   step.extent.first, step.extent.last};
    }
    count = plan.sends();
    return PRUNED_DONE;
  });
  return count;
}

std::int64_t pruned_branches(const pruned_membership* membership, pruned_branch* rows) {
  std::int64_t count = -1;
  guarded([&] {
    const Membership members = membership_of(*membership);
    const TreeShape shape(members.size, members.nodes);
    const std::vector<Branch> branches = branches_of(shape, members.sandbox, members.rank);
    for (std::size_t i = 0; rows != nullptr && i < branches.size(); ++i) {
      const Branch& branch = branches[i];
      rows[i] = {branch.tree, branch.top, branch.above, branch.slot, branch.carries ? 1 : 0, std::ssize(branch.members),
                 std::ssize(branch.below)};
    }
    count = std::ssize(branches);
    return PRUNED_DONE;
  });
  return count;
}

int pruned_release_times(const pruned_op* op, const pruned_membership* membership, const pruned_pace* pace,
                         const std::int64_t* arrivals, std::int64_t arrivals_size, std::int64_t* times) {
  return guarded([&] {
    const ArcPlan plan = arc_plan(*op, *membership);
    Pace paced(plan, times_of(*pace));
    std::int64_t arrived = 0;
    for (std::int64_t send = 0; send < plan.sends(); ++send) {
      for (; !paced.known(send); ++arrived) {
        if (arrived == arrivals_size) {
          throw std::invalid_argument("there are too few arrivals for all sends");
        }
        paced.arrived(arrivals[arrived]);
      }
      times[send] = paced.release(send);
    }
    return PRUNED_DONE;
  });
}
