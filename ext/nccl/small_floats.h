// The two 16-bit floats: bits that are widened to float, and narrowed by rounding to the nearest, ties to even.
//
// Both directions are free of branches, so that loops over them are vectorised.

#pragma once

#include <bit>
#include <cstdint>

namespace pruned {

/// IEEE binary16: 1 sign, 5 exponent, 10 fraction bits.
struct Half {
  std::uint16_t bits;
};

/// The upper half of a float.
struct Bfloat16 {
  std::uint16_t bits;
};

constexpr float widen(Bfloat16 value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16); }

constexpr void narrow(float value, Bfloat16& out) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const bool nan = (bits & 0x7FFF'FFFFU) > 0x7F80'0000U;
  out.bits = static_cast<std::uint16_t>(nan ? 0x7FC0U : rounded);
}

constexpr float widen(Half value) {
  const std::uint32_t magnitude = std::uint32_t{value.bits & 0x7FFFU} << 13;
  // Read as a float this is 2^112 times too small, subnormals included; infinities and NaNs want the highest exponent.
  const float scaled = std::bit_cast<float>(magnitude) * std::bit_cast<float>((254U - 15U) << 23);
  const std::uint32_t special = magnitude >= 0x0F80'0000U ? 0x7F80'0000U : 0U;
  const std::uint32_t sign = std::uint32_t{value.bits & 0x8000U} << 16;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | sign);
}

constexpr void narrow(float value, Half& out) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7FFF'FFFFU;
  // Normal: the exponent's bias goes from 127 to 15, and 13 fraction bits are rounded away; a carry is right as it is.
  const std::uint32_t normal = (magnitude - (112U << 23) + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
  // Subnormal: added to 0.5, the value's bits come to lie at the end of the sum, rounded by the addition.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5F);
  const std::uint32_t finite = magnitude < (113U << 23) ? subnormal : normal;
  const std::uint32_t large = magnitude > 0x7F80'0000U ? 0x7E00U : 0x7C00U;  // NaN, or beyond the largest value
  const std::uint32_t result = magnitude >= (143U << 23) ? large : finite;
  out.bits = static_cast<std::uint16_t>(result | ((bits >> 16) & 0x8000U));
}

}  // namespace pruned
