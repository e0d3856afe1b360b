// How two elements become one, and what else a reduction needs of a type.

#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "element.h"
#include "small_floats.h"

namespace pruned {

/// A truth value as torch stores it; a byte other than 0 and 1 is no valid C++ bool.
struct Truth {
  std::uint8_t value;
};

template <class T>
concept SmallFloat = std::same_as<T, Half> || std::same_as<T, Bfloat16>;

template <class T>
concept Float = std::floating_point<T> || SmallFloat<T>;

template <class T>
concept Number = Float<T> || std::integral<T> || std::same_as<T, Truth>;

/// Unsigned, so that it wraps around, and no smaller than int, which smaller types would be promoted to.
template <std::integral T>
using Wrapping = std::conditional_t<sizeof(T) < sizeof(unsigned), unsigned, std::make_unsigned_t<T>>;

template <std::floating_point T>
constexpr T widen(T value) {
  return value;
}

template <Float T>
constexpr T narrowed(std::conditional_t<SmallFloat<T>, float, T> value) {
  if constexpr (SmallFloat<T>) {
    T out{};
    narrow(value, out);
    return out;
  } else {
    return value;
  }
}

/// The smaller of two, by `less`; where one is NaN, that one.
template <Number T, class Less>
constexpr T first_of(T a, T b, Less less) {
  if constexpr (Float<T>) {
    const auto x = widen(a), y = widen(b);
    return x != x || (y == y && less(x, y)) ? a : b;
  } else {
    return less(a, b) ? a : b;
  }
}

template <Reduce R>
constexpr Truth combine(Truth a, Truth b) {
  const bool x = a.value != 0, y = b.value != 0;
  if constexpr (R == Reduce::kSum || R == Reduce::kMax || R == Reduce::kBor) {
    return {static_cast<std::uint8_t>(x | y)};
  } else if constexpr (R == Reduce::kBxor) {
    return {static_cast<std::uint8_t>(x ^ y)};
  } else {
    return {static_cast<std::uint8_t>(x & y)};
  }
}

template <Reduce R, Float T>
constexpr T combine(T a, T b) {
  if constexpr (R == Reduce::kSum) {
    return narrowed<T>(widen(a) + widen(b));
  } else if constexpr (R == Reduce::kProduct) {
    return narrowed<T>(widen(a) * widen(b));
  } else if constexpr (R == Reduce::kMin) {
    return first_of(a, b, [](auto x, auto y) { return x < y; });
  } else {
    static_assert(R == Reduce::kMax);
    return first_of(a, b, [](auto x, auto y) { return y < x; });
  }
}

template <Reduce R, std::integral T>
constexpr T combine(T a, T b) {
  using W = Wrapping<T>;
  if constexpr (R == Reduce::kSum) {
    return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
  } else if constexpr (R == Reduce::kProduct) {
    return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
  } else if constexpr (R == Reduce::kMin) {
    return first_of(a, b, [](T x, T y) { return x < y; });
  } else if constexpr (R == Reduce::kMax) {
    return first_of(a, b, [](T x, T y) { return y < x; });
  } else if constexpr (R == Reduce::kBand) {
    return static_cast<T>(a & b);
  } else if constexpr (R == Reduce::kBor) {
    return static_cast<T>(a | b);
  } else {
    static_assert(R == Reduce::kBxor);
    return static_cast<T>(a ^ b);
  }
}

/// The value that changes no other when combined with it.
template <Reduce R, Number T>
constexpr T identity() {
  if constexpr (std::same_as<T, Truth>) {
    return {static_cast<std::uint8_t>(R == Reduce::kProduct || R == Reduce::kMin || R == Reduce::kBand)};
  } else if constexpr (Float<T>) {
    using W = decltype(widen(T{}));
    constexpr W infinity = std::numeric_limits<W>::infinity();
    return narrowed<T>(R == Reduce::kProduct ? W{1}
                       : R == Reduce::kMin   ? infinity
                       : R == Reduce::kMax   ? -infinity
                                             : W{0});
  } else {
    using Limits = std::numeric_limits<T>;
    return R == Reduce::kProduct ? T{1}
           : R == Reduce::kMin   ? Limits::max()
           : R == Reduce::kMax   ? Limits::lowest()
           : R == Reduce::kBand  ? static_cast<T>(~T{0})
                                 : T{0};
  }
}

/// `times` (at least 1) such values combined; of floats rounded once, not at each step.
template <Reduce R, Number T>
constexpr T repeated(T value, std::int64_t times) {
  if constexpr (R == Reduce::kMin || R == Reduce::kMax || R == Reduce::kBand || R == Reduce::kBor) {
    return value;
  } else if constexpr (R == Reduce::kBxor) {
    return times % 2 == 1 ? value : identity<R, T>();
  } else if constexpr (std::same_as<T, Truth>) {
    return value;
  } else if constexpr (Float<T>) {
    using W = decltype(widen(value));
    const auto count = static_cast<W>(times);
    return narrowed<T>(R == Reduce::kSum ? widen(value) * count : std::pow(widen(value), count));
  } else if constexpr (R == Reduce::kSum) {
    return static_cast<T>(static_cast<Wrapping<T>>(value) * static_cast<Wrapping<T>>(times));
  } else {
    Wrapping<T> result = 1, base = static_cast<Wrapping<T>>(value);
    for (; times > 0; times /= 2, base *= base) {
      result *= times % 2 == 1 ? base : 1;
    }
    return static_cast<T>(result);
  }
}

}  // namespace pruned
