// The arithmetic of sums in ring order, each result rounded to the elements' type.

#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace prism {

template <class T>
bool is_nan(T value) {
  if constexpr (std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>) {
    return std::isnan(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value);
  } else {
    return false;
  }
}

enum class Reduce { kSum, kProduct, kMin, kMax };

template <class T, Reduce R>
T combine(T a, T b) {
  if constexpr (R == Reduce::kMin) {
    return is_nan(a) || (!is_nan(b) && a < b) ? a : b;
  } else if constexpr (R == Reduce::kMax) {
    return is_nan(a) || (!is_nan(b) && b < a) ? a : b;
  } else if constexpr (std::is_same_v<T, bool>) {
    return R == Reduce::kSum ? a || b : a && b;
  } else {
    return static_cast<T>(R == Reduce::kSum ? a + b : a * b);
  }
}

// The factor of an average, in the arithmetic in which torch multiplies such a tensor by a number.
template <class T>
void scale(T* values, int64_t count, double factor) {
  if constexpr (std::is_same_v<T, double>) {
    for (int64_t i = 0; i < count; ++i) {
      values[i] *= factor;
    }
  } else if constexpr (!std::is_integral_v<T>) {
    const auto single = static_cast<float>(factor);
    for (int64_t i = 0; i < count; ++i) {
      values[i] = static_cast<T>(static_cast<float>(values[i]) * single);
    }
  }
}

template <class T, Reduce R>
void add(T* total, const T* input, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    total[i] = combine<T, R>(total[i], input[i]);
  }
}

}  // namespace prism
