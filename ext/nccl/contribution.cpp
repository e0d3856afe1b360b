#include "contribution.h"

namespace pruned {
namespace {

Recipe array(const std::byte* data, Source otherwise) {
  return {.base = data == nullptr ? otherwise : Source::kArray, .base_array = data};
}

/// A member's block, or a sum that an earlier member of the arc has completed.
Recipe passed_on(const ArcStep& step, Kind kind, const Contribution& contribution) {
  if (step.delayed) {
    return {.base = Source::kDelayed};
  }
  if (contribution.mode == Mode::kReplicas) {
    return {.base = Source::kReplicas, .copies = 1};
  }
  return array(contribution.final, reduces(kind) ? Source::kIdentity : Source::kZeros);
}

/// A sum that begins in the arc.
Recipe begun(const ArcStep& step, const Contribution& contribution) {
  if (contribution.mode == Mode::kReplicas) {
    return {.base = Source::kReplicas, .copies = step.adders};
  }
  return array(contribution.head, Source::kIdentity);
}

/// A sum that came in.
Recipe continued(const ArcStep& step, const Contribution& contribution, int members) {
  Recipe result{.base = Source::kDelayed, .complete = step.complete};
  const bool last_adds = step.adders == members;
  if (contribution.mode == Mode::kReplicas) {
    result.added = Source::kReplicas;
    result.copies = step.adders;
  } else if (contribution.mode == Mode::kPrefolded && contribution.tail != nullptr) {
    result.added = Source::kArray;
    result.added_array = contribution.tail;
  } else if (contribution.mode == Mode::kLeft && contribution.head != nullptr && last_adds) {
    result.added = Source::kArray;
    result.added_array = contribution.head;
  }
  return result;
}

}  // namespace

Recipe recipe(const ArcStep& step, Kind kind, const Contribution& contribution, int members) {
  if (contribution.mode == Mode::kExact && reduces(kind)) {
    return array(step.total ? contribution.final : contribution.head, Source::kIdentity);
  }
  if (step.adders == 0) {
    return passed_on(step, kind, contribution);
  }
  return step.delayed ? continued(step, contribution, members) : begun(step, contribution);
}

}  // namespace pruned
