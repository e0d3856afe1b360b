// Collectives of N ranks, all of them real, in rounds: what each rank sends at each step, and what it has in the end.
//
// Written without the engine's plans and arithmetic, as the loops of a rank's own program.

#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "../cut.h"

namespace pruned::testing {

using Bytes = std::vector<std::byte>;

struct Run {
  std::vector<std::vector<Bytes>> sent;        // by rank, by number of the send
  std::vector<Bytes> outputs;                  // by rank; empty where there is none
  std::vector<std::pair<Extent, int>> chunks;  // with their owners
};

/// `inputs` by rank. Kinds in pairs have outputs only; a barrier has neither.
Run run_naively(const Op& op, Sizes sizes, const std::vector<Bytes>& inputs);

/// total (+) next, element by element.
Bytes added(const Op& op, const Bytes& total, const Bytes& next);
/// What a rank brings: its input, but for averages of floats.
Bytes brought(const Op& op, const Bytes& input);
/// A complete sum, as it is stored.
Bytes divided(const Op& op, const Bytes& sum);
/// What changes nothing.
Bytes identities(const Op& op, std::size_t bytes);
/// Random values, wild enough that the order of additions shows.
Bytes random_values(Dtype dtype, std::int64_t count, unsigned seed);

}  // namespace pruned::testing
