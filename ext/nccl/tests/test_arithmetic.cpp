// Elements: conversions of 16-bit floats, exhaustively one way; reductions of every type against plain arithmetic.

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>

#include "../arithmetic.h"
#include "../small_floats.h"
#include "check.h"
#include "naive_number.h"
#include "naive_ring.h"
#include "tests.h"

namespace pruned::testing {
namespace {

template <class T>
std::uint16_t narrowed_bits(float value) {
  T out{};
  narrow(value, out);
  return out.bits;
}

bool same_value(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

template <class T>
void check_small_float(int exponent_bits, int fraction_bits) {
  std::mt19937 random(7);
  for (int bits = 0; bits <= 0xFFFF; ++bits) {
    const T value{static_cast<std::uint16_t>(bits)};
    const double expected = small_float(value.bits, exponent_bits, fraction_bits);
    CHECK(same_value(widen(value), expected), "widening " + std::to_string(bits));
    if (std::isnan(expected)) {
      continue;
    }
    // The value itself, the midpoint to the next one (a tie), its neighbours, and anything near it.
    const auto exact = static_cast<float>(expected);
    const double next = small_float(static_cast<std::uint16_t>(bits + 1), exponent_bits, fraction_bits);
    const auto middle = static_cast<float>(std::isfinite(next) ? (expected + next) / 2 : expected);
    const float any = exact * std::ldexp(static_cast<float>(random() | 1U), -32);
    for (const float f : {exact, middle, std::nextafter(middle, 1e30F), std::nextafter(middle, -1e30F), any}) {
      CHECK(narrowed_bits<T>(f) == to_small_float(f, exponent_bits, fraction_bits), "narrowing " + std::to_string(f));
    }
  }
  for (const float f : {65503.0F, 65519.9F, 65520.0F, 65536.0F, 1e10F, 3.4e38F, INFINITY, -INFINITY, NAN}) {
    const double back = small_float(narrowed_bits<T>(f), exponent_bits, fraction_bits);
    CHECK(same_value(back, small_float(to_small_float(f, exponent_bits, fraction_bits), exponent_bits, fraction_bits)),
          "narrowing " + std::to_string(f));
  }
}

void check_reduction(Dtype dtype, Reduce reduce) {
  constexpr std::int64_t count = 301;
  const Op op{.kind = Kind::kAllReduce, .dtype = dtype, .reduce = reduce, .size = 3, .count = count};
  const std::string what =
      "dtype " + std::to_string(static_cast<int>(dtype)) + ", reduce " + std::to_string(static_cast<int>(reduce));
  const Arithmetic& functions = arithmetic(dtype, reduce);
  const Bytes a = random_values(dtype, count, 1), b = random_values(dtype, count, 2);
  Bytes out(a.size());
  functions.combine(a.data(), b.data(), out.data(), count);
  CHECK(out == added(op, a, b), what + ": combine");

  Bytes in_place = a;
  functions.combine(in_place.data(), b.data(), in_place.data(), count);
  CHECK(in_place == out, what + ": in place");

  Bytes nothing(a.size());
  functions.identity(nothing.data(), count);
  CHECK(nothing == identities(op, a.size()), what + ": identity");
  functions.combine(nothing.data(), b.data(), out.data(), count);
  CHECK(out == b, what + ": the identity changes nothing");

  CHECK((functions.scale != nullptr) == (reduce == Reduce::kAvg && is_float(dtype)),
        what + ": floats are scaled before");
  if (functions.scale != nullptr) {
    functions.scale(a.data(), out.data(), count, 1.0 / 3);
    CHECK(out == brought(op, a), what + ": scale");
  }
  CHECK((functions.divide != nullptr) == (reduce == Reduce::kAvg && !is_float(dtype)), what + ": integers are divided");
  if (functions.divide != nullptr) {
    out = a;
    functions.divide(out.data(), count, 3);
    CHECK(out == divided(op, a), what + ": divide");
  }
  if (!is_float(dtype) || reduce == Reduce::kMin || reduce == Reduce::kMax) {
    Bytes expected = a;
    for (std::int64_t times = 1; times <= 5; ++times) {
      functions.repeat(a.data(), out.data(), count, times);
      CHECK(out == expected, what + ": repeat " + std::to_string(times));
      expected = added(op, expected, a);
    }
  }
}

void check_nan(Reduce reduce) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float a[] = {nan, 1.0F, nan}, b[] = {1.0F, nan, nan};
  float out[3];
  arithmetic(Dtype::kFloat32, reduce)
      .combine(reinterpret_cast<const std::byte*>(a), reinterpret_cast<const std::byte*>(b),
               reinterpret_cast<std::byte*>(out), 3);
  CHECK(std::isnan(out[0]) && std::isnan(out[1]) && std::isnan(out[2]), "a NaN wins");
}

void check_repeated_floats() {
  const float a[] = {0.1F, -3.5F};
  float out[2];
  const auto repeat = [&](Reduce reduce) {
    arithmetic(Dtype::kFloat32, reduce)
        .repeat(reinterpret_cast<const std::byte*>(a), reinterpret_cast<std::byte*>(out), 2, 7);
  };
  repeat(Reduce::kSum);
  CHECK(out[0] == 0.1F * 7.0F && out[1] == -24.5F, "equal inputs are added in one multiplication");
  repeat(Reduce::kProduct);
  CHECK(std::fabs(out[0] - 1e-7F) < 1e-12F, "and multiplied in one power");
}

}  // namespace

void test_arithmetic() {
  check_small_float<Half>(5, 10);
  check_small_float<Bfloat16>(8, 7);
  constexpr Dtype integers[] = {Dtype::kUint8, Dtype::kInt8,   Dtype::kUint16, Dtype::kInt16, Dtype::kUint32,
                                Dtype::kInt32, Dtype::kUint64, Dtype::kInt64,  Dtype::kBool};
  constexpr Dtype floats[] = {Dtype::kFloat16, Dtype::kBfloat16, Dtype::kFloat32, Dtype::kFloat64};
  for (const Reduce reduce : {Reduce::kSum, Reduce::kProduct, Reduce::kMin, Reduce::kMax, Reduce::kAvg}) {
    for (const Dtype dtype : floats) {
      check_reduction(dtype, reduce);
    }
  }
  for (int reduce = 1; reduce <= static_cast<int>(Reduce::kBxor); ++reduce) {
    for (const Dtype dtype : integers) {
      if (dtype != Dtype::kBool || static_cast<Reduce>(reduce) != Reduce::kAvg) {
        check_reduction(dtype, static_cast<Reduce>(reduce));
      }
    }
  }
  check_nan(Reduce::kMin);
  check_nan(Reduce::kMax);
  check_repeated_floats();
  check_throws<std::invalid_argument>([] { arithmetic(Dtype::kFloat32, Reduce::kBand); }, "bits of floats");
  check_throws<std::invalid_argument>([] { arithmetic(Dtype::kBool, Reduce::kAvg); }, "an average of truth");
  check_throws<std::invalid_argument>([] { arithmetic(Dtype::kComplex64, Reduce::kSum); }, "a complex sum");
}

}  // namespace pruned::testing
