#include <random>

#include "naive_number.h"
#include "naive_ring.h"

namespace pruned::testing {
namespace {

template <class T>
T load(const Bytes& bytes, std::size_t i) {
  T value{};
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(Bytes& bytes, std::size_t i, T value) {
  std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
}

template <class T, class Function>
Bytes each(const Bytes& a, const Bytes& b, Function function) {
  Bytes out(a.size());
  for (std::size_t i = 0; i < a.size() / sizeof(T); ++i) {
    store<T>(out, i, function(load<T>(a, i), load<T>(b, i)));
  }
  return out;
}

/// Calls `body` with a value of the C++ type whose arithmetic elements of this type have.
template <class Body>
void with_type(Dtype dtype, Body body) {
  switch (dtype) {
    case Dtype::kUint8:
    case Dtype::kBool:
      return body(std::uint8_t{});
    case Dtype::kInt8:
      return body(std::int8_t{});
    case Dtype::kUint16:
      return body(std::uint16_t{});
    case Dtype::kInt16:
      return body(std::int16_t{});
    case Dtype::kUint32:
      return body(std::uint32_t{});
    case Dtype::kInt32:
      return body(std::int32_t{});
    case Dtype::kUint64:
      return body(std::uint64_t{});
    case Dtype::kInt64:
      return body(std::int64_t{});
    case Dtype::kFloat32:
      return body(float{});
    default:
      return body(double{});
  }
}

bool is_small(Dtype dtype) { return dtype == Dtype::kFloat16 || dtype == Dtype::kBfloat16; }
int exponent_bits(Dtype dtype) { return dtype == Dtype::kFloat16 ? 5 : 8; }
int fraction_bits(Dtype dtype) { return dtype == Dtype::kFloat16 ? 10 : 7; }

float widened(Dtype dtype, std::uint16_t bits) {
  return static_cast<float>(small_float(bits, exponent_bits(dtype), fraction_bits(dtype)));
}

std::uint16_t narrowed(Dtype dtype, float value) {
  return to_small_float(value, exponent_bits(dtype), fraction_bits(dtype));
}

}  // namespace

Bytes divided(const Op& op, const Bytes& sum) {
  Bytes out = sum;
  if (op.reduce == Reduce::kAvg && !is_float(op.dtype)) {
    with_type(op.dtype, [&](auto sample) {
      using T = decltype(sample);
      out = each<T>(sum, sum, [&](T a, T) {
        if constexpr (std::is_unsigned_v<T>) {
          return static_cast<T>(a / static_cast<std::uint64_t>(op.size));
        } else {
          return static_cast<T>(a / static_cast<std::int64_t>(op.size));
        }
      });
    });
  }
  return out;
}

Bytes added(const Op& op, const Bytes& total, const Bytes& next) {
  if (is_small(op.dtype)) {
    return each<std::uint16_t>(total, next, [&](std::uint16_t a, std::uint16_t b) {
      if (op.reduce == Reduce::kMin || op.reduce == Reduce::kMax) {
        const float chosen = combined(op.reduce, widened(op.dtype, a), widened(op.dtype, b));
        return chosen != chosen ? a : narrowed(op.dtype, chosen);
      }
      return narrowed(op.dtype, combined(op.reduce, widened(op.dtype, a), widened(op.dtype, b)));
    });
  }
  if (op.dtype == Dtype::kBool) {
    return each<std::uint8_t>(total, next, [&](std::uint8_t a, std::uint8_t b) {
      return static_cast<std::uint8_t>(combined<int>(op.reduce, a, b) != 0);
    });
  }
  Bytes out;
  with_type(op.dtype, [&](auto sample) {
    using T = decltype(sample);
    out = each<T>(total, next, [&](T a, T b) { return combined<T>(op.reduce, a, b); });
  });
  return out;
}

Bytes brought(const Op& op, const Bytes& input) {
  if (op.reduce != Reduce::kAvg || !is_float(op.dtype) || !reduces(op.kind)) {
    return input;
  }
  const double factor = 1.0 / op.size;
  if (is_small(op.dtype)) {
    return each<std::uint16_t>(input, input, [&](std::uint16_t a, std::uint16_t) {
      return narrowed(op.dtype, widened(op.dtype, a) * static_cast<float>(factor));
    });
  }
  return op.dtype == Dtype::kFloat32
             ? each<float>(input, input, [&](float a, float) { return a * static_cast<float>(factor); })
             : each<double>(input, input, [&](double a, double) { return a * factor; });
}

Bytes identities(const Op& op, std::size_t bytes) {
  Bytes out(bytes);
  const bool ones = op.reduce == Reduce::kProduct;
  if (is_small(op.dtype)) {
    const float value = ones                        ? 1.0F
                        : op.reduce == Reduce::kMin ? std::numeric_limits<float>::infinity()
                        : op.reduce == Reduce::kMax ? -std::numeric_limits<float>::infinity()
                                                    : 0.0F;
    return each<std::uint16_t>(out, out, [&](std::uint16_t, std::uint16_t) { return narrowed(op.dtype, value); });
  }
  if (op.dtype == Dtype::kBool) {
    const bool value = ones || op.reduce == Reduce::kMin || op.reduce == Reduce::kBand;
    return Bytes(bytes, static_cast<std::byte>(value));
  }
  with_type(op.dtype, [&](auto sample) {
    using T = decltype(sample);
    using Limits = std::numeric_limits<T>;
    T value = ones ? T{1} : T{0};
    if (op.reduce == Reduce::kMin) {
      value = Limits::has_infinity ? Limits::infinity() : Limits::max();
    } else if (op.reduce == Reduce::kMax) {
      value = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    } else if constexpr (std::is_integral_v<T>) {
      value = op.reduce == Reduce::kBand ? static_cast<T>(~T{0}) : value;
    }
    out = each<T>(out, out, [&](T, T) { return value; });
  });
  return out;
}

Bytes random_values(Dtype dtype, std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> mantissa(1.0F, 2.0F);
  std::uniform_int_distribution<int> exponent(-4, 6), whole(-9, 9), truth(0, 1);
  Bytes out(count * itemsize(dtype));
  for (std::int64_t i = 0; i < count; ++i) {
    const float wild = std::ldexp(mantissa(random), exponent(random)) * (truth(random) != 0 ? 1.0F : -1.0F);
    if (is_small(dtype)) {
      store<std::uint16_t>(out, i, narrowed(dtype, wild));
    } else if (dtype == Dtype::kBool) {
      store<std::uint8_t>(out, i, static_cast<std::uint8_t>(truth(random)));
    } else {
      with_type(dtype, [&](auto sample) {
        using T = decltype(sample);
        store<T>(out, i, std::is_floating_point_v<T> ? static_cast<T>(wild) : static_cast<T>(whole(random)));
      });
    }
  }
  return out;
}

}  // namespace pruned::testing
