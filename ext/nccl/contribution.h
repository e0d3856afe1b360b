// What the virtual members of an arc bring to an operation, so that the pruned result is right.
//
// An address is that of an array over the operation's elements (of all blocks, where there are blocks); null brings
// what changes nothing: the identity of the reduction, or zero bytes where data are only passed on.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "arc_plan.h"

namespace pruned {

enum class Mode : std::int32_t {
  kExact,      // head: running totals just before b; final: the result. What comes in is dropped
  kLeft,       // head: the fold of all virtual members, carried by the arc's last member; null in the other arcs. In
               // trees one branch of each carries it
  kPrefolded,  // head, tail: what the arc's members add, folded, to chunks that begin in it and to those that come in
  kReplicas,   // each virtual member has the input of a, which publishes it
};

struct Contribution {
  Mode mode = Mode::kLeft;
  const std::byte* head = nullptr;
  const std::byte* tail = nullptr;
  const std::byte* final = nullptr;
  /// In trees, by slot (branch.h): what each branch's members add, folded (prefolded), or what it sends up (exact;
  /// null: the result in its place). `tail` is for rings alone.
  std::array<const std::byte*, 4> branches = {};
};

/// Where the first operand of a send comes from, and what is added to it.
enum class Source : std::uint8_t { kNothing, kIdentity, kZeros, kArray, kDelayed, kReplicas };

/// How one send is made: `base`, then `added` folded in. Arrays are addressed by the operation's elements.
struct Recipe {
  Source base = Source::kIdentity;
  const std::byte* base_array = nullptr;
  Source added = Source::kNothing;
  const std::byte* added_array = nullptr;
  int copies = 0;         // of a's input, if the base or what is added are replicas
  bool complete = false;  // the sum is complete: integer averages are divided

  bool operator==(const Recipe&) const = default;
};

namespace recipes {

constexpr Recipe array(const std::byte* data, Source otherwise) {
  return {.base = data == nullptr ? otherwise : Source::kArray, .base_array = data};
}

/// A member's block, or a sum that an earlier member of the arc has completed.
constexpr Recipe passed_on(const ArcStep& step, Kind kind, const Contribution& contribution) {
  if (step.delayed) {
    return {.base = Source::kDelayed};
  }
  if (contribution.mode == Mode::kReplicas) {
    return {.base = Source::kReplicas, .copies = 1};
  }
  return array(contribution.final, reduces(kind) ? Source::kIdentity : Source::kZeros);
}

/// A sum that begins in the arc.
constexpr Recipe begun(const ArcStep& step, const Contribution& contribution) {
  if (contribution.mode == Mode::kReplicas) {
    return {.base = Source::kReplicas, .copies = step.adders};
  }
  return array(contribution.head, Source::kIdentity);
}

/// A sum that came in.
constexpr Recipe continued(const ArcStep& step, const Contribution& contribution, int members) {
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

}  // namespace recipes

constexpr Recipe recipe(const ArcStep& step, Kind kind, const Contribution& contribution, int members) {
  if (contribution.mode == Mode::kExact && reduces(kind)) {
    return recipes::array(step.total ? contribution.final : contribution.head, Source::kIdentity);
  }
  if (step.adders == 0) {
    return recipes::passed_on(step, kind, contribution);
  }
  return step.delayed ? recipes::continued(step, contribution, members) : recipes::begun(step, contribution);
}

}  // namespace pruned
