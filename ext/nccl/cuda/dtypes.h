// Which of NCCL's types are reduced as what, and by which rule.

#pragma once

#include "merge.h"

namespace pruned::device {

/// Calls `body` with a null pointer to the C++ type; false if there is no reduction of this one.
template <class Body>
bool with_type(Dtype dtype, Body body) {
  switch (dtype) {
    case Dtype::kUint8:
      return body(static_cast<std::uint8_t*>(nullptr)), true;
    case Dtype::kInt8:
      return body(static_cast<std::int8_t*>(nullptr)), true;
    case Dtype::kInt32:
      return body(static_cast<std::int32_t*>(nullptr)), true;
    case Dtype::kUint32:
      return body(static_cast<std::uint32_t*>(nullptr)), true;
    case Dtype::kInt64:
      return body(static_cast<std::int64_t*>(nullptr)), true;
    case Dtype::kUint64:
      return body(static_cast<std::uint64_t*>(nullptr)), true;
    case Dtype::kFloat16:
      return body(static_cast<Half*>(nullptr)), true;
    case Dtype::kBfloat16:
      return body(static_cast<Bfloat16*>(nullptr)), true;
    case Dtype::kFloat32:
      return body(static_cast<float*>(nullptr)), true;
    case Dtype::kFloat64:
      return body(static_cast<double*>(nullptr)), true;
    default:
      return false;
  }
}

/// A member's rule: an average scales inputs of floats, and divides complete sums of integers. Without a reduction,
/// nothing.
constexpr Rule rule_of(Dtype dtype, Reduce reduce, int size) {
  Rule rule{.reduce = reduce};
  if (reduce == Reduce::kAvg) {
    rule.reduce = Reduce::kSum;
    rule.scales_first = is_float(dtype);
    rule.factor = 1.0 / size;
    rule.divisor = is_float(dtype) ? 0 : size;
  }
  return rule;
}

}  // namespace pruned::device
