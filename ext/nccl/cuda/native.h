// Packs of 16 bytes: how they are read, scaled, and added.
//
// On a device 16-bit floats are added by its own instructions. Their results are those of ../small_floats.h, rounded
// once: a float holds the sum of two of them closely enough that rounding it again changes nothing. Only a NaN's bits
// may differ.

#pragma once

#include <bit>

#include "../number.h"
#include "hd.h"

namespace pruned::device {

struct alignas(16) Pack {
  std::uint64_t words[2];
};

/// Past the first-level cache, which others' writes do not reach.
PRUNED_HD inline Pack load_pack(const Pack* from) {
#if defined(__CUDA_ARCH__)
  const uint4 value = __ldcg(reinterpret_cast<const uint4*>(from));
  return std::bit_cast<Pack>(value);
#else
  return *from;
#endif
}

template <class T>
struct Elements {
  T at[sizeof(Pack) / sizeof(T)];
};

/// A pack of combine(x, y) of all elements.
template <class T, class Combine>
PRUNED_HD inline Pack each(const Pack& a, const Pack& b, Combine combine) {
  const auto x = std::bit_cast<Elements<T>>(a), y = std::bit_cast<Elements<T>>(b);
  Elements<T> z;
PRUNED_UNROLL
  for (std::size_t i = 0; i < sizeof(Pack) / sizeof(T); ++i) {
    z.at[i] = combine(x.at[i], y.at[i]);
  }
  return std::bit_cast<Pack>(z);
}

#if defined(__CUDA_ARCH__)
__device__ inline std::uint32_t sum_of_pairs(std::uint32_t a, std::uint32_t b, Half) {
  std::uint32_t result;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

// a * 1 + b, as there is no addition before compute capability 9.0.
__device__ inline std::uint32_t sum_of_pairs(std::uint32_t a, std::uint32_t b, Bfloat16) {
  std::uint32_t result;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(0x3F80'3F80U), "r"(b));
  return result;
}
#endif

#if defined(__CUDA_ARCH__)
__device__ inline std::uint32_t scaled_pair(std::uint32_t pair, float factor, Bfloat16) {
  const float low = std::bit_cast<float>(pair << 16) * factor;
  const float high = std::bit_cast<float>(pair & 0xFFFF'0000U) * factor;
  std::uint32_t result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}

__device__ inline std::uint32_t scaled_pair(std::uint32_t pair, float factor, Half) {
  float low, high;
  asm("{\n .reg .f16 l, h;\n mov.b32 {l, h}, %2;\n cvt.f32.f16 %0, l;\n cvt.f32.f16 %1, h;\n}"
      : "=f"(low), "=f"(high)
      : "r"(pair));
  std::uint32_t result;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high * factor), "f"(low * factor));
  return result;
}
#endif

/// Each element, multiplied and rounded.
template <Float T>
PRUNED_HD inline Pack scaled_pack(const Pack& pack, double by) {
  const auto factor = static_cast<decltype(widen(T{}))>(by);
#if defined(__CUDA_ARCH__)
  if constexpr (SmallFloat<T>) {
    return each<std::uint32_t>(pack, pack, [=](std::uint32_t x, std::uint32_t) { return scaled_pair(x, factor, T{}); });
  } else
#endif
  {
    return each<T>(pack, pack, [=](T x, T) { return narrowed<T>(widen(x) * factor); });
  }
}

template <class T>
PRUNED_HD inline Pack sum(const Pack& a, const Pack& b) {
#if defined(__CUDA_ARCH__)
  if constexpr (SmallFloat<T>) {
    return each<std::uint32_t>(a, b, [](std::uint32_t x, std::uint32_t y) { return sum_of_pairs(x, y, T{}); });
  } else
#endif
  {
    return each<T>(a, b, [](T x, T y) { return combine<Reduce::kSum>(x, y); });
  }
}

}  // namespace pruned::device
