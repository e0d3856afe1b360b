// The two 16-bit floats of torch, widened to float and narrowed by rounding to the nearest, ties to even.
//
// The bits are those of c10's conversions. These here have no branches, so that loops over them are vectorised, and
// make a Half from and to no subnormal float, which a processor may have been told to take for zero.

#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace prism {

inline float widen(c10::BFloat16 value) { return std::bit_cast<float>(uint32_t{value.x} << 16); }

inline void narrow(float value, c10::BFloat16& out) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  const bool nan = (bits & 0x7FFF'FFFF) > 0x7F80'0000;
  out.x = static_cast<uint16_t>(nan ? 0x7FC0 : rounded);
}

// To BFloat16, where it is a float still.
inline float rounded(float value, c10::BFloat16 /*to*/) {
  c10::BFloat16 out;
  narrow(value, out);
  return widen(out);
}

// All bits if `a` is less than `b`, by arithmetic: of comparisons with a constant the compiler makes branches.
inline uint32_t mask_if_less(uint32_t a, uint32_t b) { return -((a - b) >> 31); }

// 2^13 times the power of two of a float's exponent: the significand of a Half, added to it, lies in its last bits.
inline uint32_t above(uint32_t exponent) { return (exponent + 13) << 23; }

constexpr uint32_t kHighestExponent = 0x7F80'0000;  // that of infinities and NaNs

inline float widen(c10::Half value) {
  const uint32_t magnitude = value.x & 0x7FFFU;
  const uint32_t exponent = std::max(magnitude >> 10, 1U);  // subnormals have that of the least normal ones
  const uint32_t significand = magnitude - ((exponent - 1) << 10);
  const uint32_t base = above(exponent + 112);
  const float finite = std::bit_cast<float>(base + significand) - std::bit_cast<float>(base);
  const uint32_t special = mask_if_less(0x7BFF, magnitude) & kHighestExponent;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(finite) | special | (value.x & 0x8000U) << 16);
}

// A float's magnitude, on its way to a Half.
struct ToHalf {
  explicit ToHalf(uint32_t magnitude)
      : nan(mask_if_less(kHighestExponent, magnitude)),
        bounded(magnitude - ((magnitude - kInfinite) & mask_if_less(kInfinite, magnitude))),
        exponent(std::max(bounded >> 23, 113U)),
        base(above(exponent)),
        sum(std::bit_cast<float>(base) + std::bit_cast<float>(bounded)) {}

  static constexpr uint32_t kInfinite = 143U << 23;  // 2^16; all from there on are

  uint32_t nan, bounded, exponent, base;
  float sum;  // in whose last bits lies the significand, rounded
};

inline void narrow(float value, c10::Half& out) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const ToHalf to(bits & 0x7FFF'FFFF);
  const uint32_t significand = std::bit_cast<uint32_t>(to.sum) - to.base;
  const uint32_t result = ((to.exponent - 113) << 10) + significand;  // its first bit, and a carry, count that up
  out.x = static_cast<uint16_t>(result | (to.nan & 0x0200) | ((bits >> 16) & 0x8000));
}

inline float rounded(float value, c10::Half /*to*/) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const ToHalf to(bits & 0x7FFF'FFFF);
  const auto result = std::bit_cast<uint32_t>(to.sum - std::bit_cast<float>(to.base));
  const uint32_t special = mask_if_less(ToHalf::kInfinite - 1, result) & kHighestExponent;
  return std::bit_cast<float>(result | special | (to.nan & 0x0040'0000) | (bits & 0x8000'0000));
}

}  // namespace prism
