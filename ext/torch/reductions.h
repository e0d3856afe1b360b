// The arithmetic of sums in ring order, each result rounded to the elements' type.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "small_floats.h"
#include "vectors.h"

namespace prism {

// What elements are added in: a type that holds all their values.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>, float, T>;

template <class T>
T widen(T value) {
  return value;
}

template <class T>
void narrow(T value, T& out) {
  out = value;
}

template <class T>
T rounded(T value, T /*to*/) {
  return value;
}

// `second` in the place of `first`, or not.
template <class T>
void pick(bool keep, T& first, const T& second) {
  if constexpr (std::is_same_v<T, Wide<T>>) {
    first = keep ? first : second;
  } else {
    first.x = keep ? first.x : second.x;
  }
}

enum class Reduce { kSum, kProduct, kMin, kMax };

template <Reduce R>
constexpr bool kPicks = R == Reduce::kMin || R == Reduce::kMax;  // one of the two, and rounds nothing

template <Reduce R, class T>
T combine(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return R == Reduce::kSum ? a || b : a && b;
  } else {
    return static_cast<T>(R == Reduce::kSum ? a + b : a * b);
  }
}

// Whether of two elements the first is to be had: it is less, or more, or not a number.
template <Reduce R, class T>
bool picks_first(T a, T b) {
  const bool before = R == Reduce::kMin ? a < b : b < a;  // false if either is not a number
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<int>(before) | static_cast<int>(a != a);  // whose second half must not be a branch
  } else {
    return before;
  }
}

// The factor of an average, in the arithmetic in which torch multiplies such a tensor by a number.
template <class T>
void scale(T* values, int64_t count, double factor) {
  if constexpr (!std::is_integral_v<T>) {
    vectorised(
        [](T* values, int64_t count, Wide<T> factor) {
          for (int64_t i = 0; i < count; ++i) {
            narrow(widen(values[i]) * factor, values[i]);
          }
        },
        values, count, static_cast<Wide<T>>(factor));
  }
}

template <class T, Reduce R>
void add(T* total, const T* input, int64_t count) {
  vectorised(
      [](T* total, const T* input, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          const auto a = widen(total[i]), b = widen(input[i]);
          if constexpr (kPicks<R>) {
            pick(picks_first<R>(a, b), total[i], input[i]);
          } else {
            narrow(combine<R>(a, b), total[i]);
          }
        }
      },
      total, input, count);
}

constexpr int64_t kFewElements = 512;  // which, widened, stay in the first-level cache
constexpr int64_t kStride = 32;

// The same input many times, to a few elements. What a stride of additions leaves as it was, all further ones do: sums
// of small floats soon grow so large that they no longer change.
template <class T, Reduce R>
void add_to_few(T* total, const T* input, int64_t count, int64_t times) {
  Wide<T> sums[kFewElements], inputs[kFewElements], before[kFewElements];
  for (int64_t i = 0; i < count; ++i) {
    sums[i] = widen(total[i]);
    inputs[i] = widen(input[i]);
  }
  while (times > 0) {
    const int64_t stride = std::min(times, kStride);
    std::copy_n(sums, count, before);
    for (int64_t step = 0; step < stride; ++step) {
      for (int64_t i = 0; i < count; ++i) {
        sums[i] = rounded(combine<R>(sums[i], inputs[i]), T());
      }
    }
    times -= stride;
    if (std::memcmp(before, sums, count * sizeof(Wide<T>)) == 0) {
      times %= stride;
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    narrow(sums[i], total[i]);
  }
}

// The same input, so many times one after the other.
template <class T, Reduce R>
void add(T* total, const T* input, int64_t count, int64_t times) {
  if (times == 1 || (kPicks<R> && times > 1)) {  // what has been picked is picked again
    add<T, R>(total, input, count);
  } else if constexpr (!kPicks<R>) {
    vectorised(
        [](T* total, const T* input, int64_t count, int64_t times) {
          for (int64_t at = 0; at < count && times > 0; at += kFewElements) {
            add_to_few<T, R>(total + at, input + at, std::min(kFewElements, count - at), times);
          }
        },
        total, input, count, times);
  }
}

}  // namespace prism
