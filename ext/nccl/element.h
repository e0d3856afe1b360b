// The types of elements, the reductions and the collectives, numbered as in prism.core.graph.

#pragma once

#include <cstddef>
#include <cstdint>

namespace pruned {

enum class Dtype : std::int32_t {
  kNone,
  kUint8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64,
  kBool,
  kComplex64,
  kComplex128,
  kFloat8E4m3fn,
  kFloat8E5m2,
  kUint16,
  kUint32,
  kUint64,
  kFloat8E4m3fnuz,
  kFloat8E5m2fnuz,
};

enum class Reduce : std::int32_t { kNone, kSum, kAvg, kProduct, kMin, kMax, kBand, kBor, kBxor };

enum class Kind : std::int32_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kAllToAll,
  kBarrier,
};

/// Bytes of one element; 0 of kNone.
constexpr std::size_t itemsize(Dtype dtype) {
  switch (dtype) {
    case Dtype::kNone:
      return 0;
    case Dtype::kInt16:
    case Dtype::kUint16:
    case Dtype::kFloat16:
    case Dtype::kBfloat16:
      return 2;
    case Dtype::kInt32:
    case Dtype::kUint32:
    case Dtype::kFloat32:
      return 4;
    case Dtype::kInt64:
    case Dtype::kUint64:
    case Dtype::kFloat64:
    case Dtype::kComplex64:
      return 8;
    case Dtype::kComplex128:
      return 16;
    default:
      return 1;
  }
}

constexpr bool is_float(Dtype dtype) {
  return dtype == Dtype::kFloat16 || dtype == Dtype::kBfloat16 || dtype == Dtype::kFloat32 || dtype == Dtype::kFloat64;
}

constexpr bool reduces(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduceScatter || kind == Kind::kReduce;
}

/// Whether chunks run from the first member to the last, once.
constexpr bool is_chain(Kind kind) { return kind == Kind::kBroadcast || kind == Kind::kReduce; }

/// Whether members exchange blocks in pairs, not along a ring.
constexpr bool is_pairwise(Kind kind) {
  return kind == Kind::kGather || kind == Kind::kScatter || kind == Kind::kAllToAll;
}

}  // namespace pruned
