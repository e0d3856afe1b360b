// Single elements, read, combined and rounded in the plainest way there is.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "../element.h"

namespace pruned::testing {

/// The value of a 16-bit float with so many exponent and fraction bits.
inline double small_float(std::uint16_t bits, int exponent_bits, int fraction_bits) {
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  const int whole = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
  return sign * std::ldexp(whole, std::max(exponent, 1) - bias - fraction_bits);
}

/// The nearest 16-bit float, ties to even.
inline std::uint16_t to_small_float(double value, int exponent_bits, int fraction_bits) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto infinity = static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << fraction_bits);
  if (std::isnan(value)) {
    return static_cast<std::uint16_t>(infinity | (1 << (fraction_bits - 1)));
  }
  int exponent = 0;
  std::frexp(value, &exponent);
  const int unit = std::max(exponent - 1, 1 - bias) - fraction_bits;  // of the last place
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(std::fabs(value), -unit)), unit);
  if (std::isinf(value) ||
      rounded > small_float(static_cast<std::uint16_t>(infinity - 1), exponent_bits, fraction_bits)) {
    return sign | infinity;
  }
  for (int down = unit;; ++down) {  // the representation whose fraction fits
    const double places = std::ldexp(rounded, -down);
    if (places < (2 << fraction_bits)) {
      const int whole = static_cast<int>(places);
      const int stored =
          whole < (1 << fraction_bits) ? whole : whole + ((down + fraction_bits + bias - 1) << fraction_bits);
      return static_cast<std::uint16_t>(sign | stored);
    }
  }
}

inline bool smaller(double a, double b) { return a < b; }

template <class T>
T combined(Reduce reduce, T a, T b) {
  switch (reduce) {
    case Reduce::kSum:
    case Reduce::kAvg:
      if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
      } else {
        return a + b;
      }
    case Reduce::kProduct:
      if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
      } else {
        return a * b;
      }
    case Reduce::kMin:
      return a != a ? a : b != b ? b : a < b ? a : b;
    case Reduce::kMax:
      return a != a ? a : b != b ? b : b < a ? a : b;
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(reduce == Reduce::kBand ? a & b : reduce == Reduce::kBor ? a | b : a ^ b);
  } else {
    return a;
  }
}

}  // namespace pruned::testing
