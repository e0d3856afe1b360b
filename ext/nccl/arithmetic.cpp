#include "arithmetic.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "number.h"

namespace pruned {
namespace {

// Tensors and slots hold elements of T, aligned for T; the engine passes them on as bytes.
template <class T>
const T* elements(const std::byte* data) {
  return reinterpret_cast<const T*>(data);
}

template <class T>
T* elements(std::byte* data) {
  return reinterpret_cast<T*>(data);
}

// `ivdep`: an output may be an input, which the compiler would take for a dependence between iterations.

template <Number T, Reduce R>
void combine_arrays(const std::byte* total, const std::byte* next, std::byte* out, std::size_t count) {
  const T* a = elements<T>(total);
  const T* b = elements<T>(next);
  T* c = elements<T>(out);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    c[i] = combine<R>(a[i], b[i]);
  }
}

template <Number T, Reduce R>
void repeat_array(const std::byte* in, std::byte* out, std::size_t count, std::int64_t times) {
  const T* a = elements<T>(in);
  T* b = elements<T>(out);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    b[i] = repeated<R>(a[i], times);
  }
}

template <Number T, Reduce R>
void fill_identity(std::byte* out, std::size_t count) {
  std::fill_n(elements<T>(out), count, identity<R, T>());
}

// A tensor is multiplied by a number as torch does it: in float, or in double if it is one.
template <Float T>
void scale_array(const std::byte* in, std::byte* out, std::size_t count, double factor) {
  using Wide = decltype(widen(T{}));
  const auto number = static_cast<Wide>(factor);
  const T* a = elements<T>(in);
  T* b = elements<T>(out);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    b[i] = narrowed<T>(widen(a[i]) * number);
  }
}

template <std::integral T>
void divide_array(std::byte* values, std::size_t count, std::int64_t divisor) {
  T* a = elements<T>(values);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (std::is_signed_v<T>) {
      a[i] = static_cast<T>(a[i] / divisor);
    } else {
      a[i] = static_cast<T>(a[i] / static_cast<std::uint64_t>(divisor));
    }
  }
}

template <Number T, Reduce R>
constexpr Arithmetic made() {
  return {.combine = combine_arrays<T, R>,
          .repeat = repeat_array<T, R>,
          .identity = fill_identity<T, R>,
          .scale = nullptr,
          .divide = nullptr};
}

template <Number T>
constexpr Arithmetic average() {
  Arithmetic result = made<T, Reduce::kSum>();
  if constexpr (Float<T>) {
    result.scale = scale_array<T>;
  } else if constexpr (std::integral<T>) {
    result.divide = divide_array<T>;
  }
  return result;
}

template <Number T, Reduce R>
const Arithmetic* table() {
  static constexpr Arithmetic entry = made<T, R>();
  return &entry;
}

template <Number T>
const Arithmetic* lookup(Reduce reduce) {
  static constexpr Arithmetic averages = average<T>();
  switch (reduce) {
    case Reduce::kSum:
      return table<T, Reduce::kSum>();
    case Reduce::kProduct:
      return table<T, Reduce::kProduct>();
    case Reduce::kMin:
      return table<T, Reduce::kMin>();
    case Reduce::kMax:
      return table<T, Reduce::kMax>();
    case Reduce::kAvg:
      return std::same_as<T, Truth> ? nullptr : &averages;
    default:
      break;
  }
  if constexpr (!Float<T>) {
    switch (reduce) {
      case Reduce::kBand:
        return table<T, Reduce::kBand>();
      case Reduce::kBor:
        return table<T, Reduce::kBor>();
      case Reduce::kBxor:
        return table<T, Reduce::kBxor>();
      default:
        break;
    }
  }
  return nullptr;
}

const Arithmetic* lookup(Dtype dtype, Reduce reduce) {
  switch (dtype) {
    case Dtype::kUint8:
      return lookup<std::uint8_t>(reduce);
    case Dtype::kInt8:
      return lookup<std::int8_t>(reduce);
    case Dtype::kUint16:
      return lookup<std::uint16_t>(reduce);
    case Dtype::kInt16:
      return lookup<std::int16_t>(reduce);
    case Dtype::kUint32:
      return lookup<std::uint32_t>(reduce);
    case Dtype::kInt32:
      return lookup<std::int32_t>(reduce);
    case Dtype::kUint64:
      return lookup<std::uint64_t>(reduce);
    case Dtype::kInt64:
      return lookup<std::int64_t>(reduce);
    case Dtype::kFloat16:
      return lookup<Half>(reduce);
    case Dtype::kBfloat16:
      return lookup<Bfloat16>(reduce);
    case Dtype::kFloat32:
      return lookup<float>(reduce);
    case Dtype::kFloat64:
      return lookup<double>(reduce);
    case Dtype::kBool:
      return lookup<Truth>(reduce);
    default:
      return nullptr;
  }
}

}  // namespace

const Arithmetic& arithmetic(Dtype dtype, Reduce reduce) {
  const Arithmetic* found = lookup(dtype, reduce);
  if (found == nullptr) {
    throw std::invalid_argument("no such reduction: type " + std::to_string(static_cast<int>(dtype)) + ", reduction " +
                                std::to_string(static_cast<int>(reduce)) +
                                "; floats have sum, avg, product, min and max, integers also band, bor and bxor");
  }
  return *found;
}

}  // namespace pruned
