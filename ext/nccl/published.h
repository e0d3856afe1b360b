// With replicas: what a sandbox member publishes before it takes part, so that the virtual members bring it too.
//
// Its input; in a broadcast the tensor that it has, so that a virtual root has one, and a program's own parameters stay.
// Where nothing fits in a virtual member's place nothing is published, and they bring zeros: in pairs and messages,
// where each pair has bytes of its own, and where the blocks of an all_gather are not even.

#pragma once

#include <cstddef>

#include "element.h"

namespace pruned {

/// `even`: all blocks of the operation are.
constexpr bool is_published(Kind kind, bool even) {
  return !is_pairwise(kind) && kind != Kind::kBarrier && (kind != Kind::kAllGather || even);
}

/// From what a member has for an operation, as it is before.
constexpr const std::byte* published_of(Kind kind, bool is_root, const std::byte* input, const std::byte* output) {
  return kind == Kind::kBroadcast && !is_root ? output : input;
}

}  // namespace pruned
