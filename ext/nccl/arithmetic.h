// Reductions over arrays of one type, each result rounded to that type.
//
// The arithmetic is ext/torch/fold.cpp's: 16-bit floats are widened, combined and rounded to the nearest; integers wrap
// around; a NaN wins in minimum and maximum. Averages of floats are sums of inputs that were multiplied by 1/N before;
// averages of integers are sums, divided when they are complete.

#pragma once

#include <cstddef>
#include <cstdint>

#include "element.h"

namespace pruned {

/// What is reduced goes through two or three loops, so it goes in blocks that stay in the first-level cache.
constexpr std::size_t kBlockBytes = 16 * 1024;

/// The functions for one type and reduction. Counts are in elements; an output is an input, or does not overlap it.
struct Arithmetic {
  /// out = total (+) next, the order in which a ring adds.
  void (*combine)(const std::byte* total, const std::byte* next, std::byte* out, std::size_t count);
  /// out = the fold of `times` arrays like this one, rounded once.
  void (*repeat)(const std::byte* in, std::byte* out, std::size_t count, std::int64_t times);
  /// out = what changes nothing when it is combined.
  void (*identity)(std::byte* out, std::size_t count);
  /// out = in * factor: what a member brings to an average of floats; null for other reductions.
  void (*scale)(const std::byte* in, std::byte* out, std::size_t count, double factor);
  /// values /= divisor, towards zero: what completes an average of integers; null for other reductions.
  void (*divide)(std::byte* values, std::size_t count, std::int64_t divisor);
};

/// Throws std::invalid_argument if elements of this type cannot be reduced so.
const Arithmetic& arithmetic(Dtype dtype, Reduce reduce);

}  // namespace pruned
