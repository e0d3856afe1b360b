// How one piece of data becomes another: one operand, or two that are combined, to memory, a slot, or both.
//
// Most go in packs of 16 bytes, several in flight for each thread; what does not lie on 16 bytes goes by elements. Each
// element's value is that of ../number.h, whatever the way.

#pragma once

#include <cstddef>
#include <cstdint>

#include "../number.h"
#include "hd.h"
#include "native.h"

namespace pruned::device {

/// What is done to elements besides moving them.
struct Rule {
  Reduce reduce = Reduce::kNone;
  double factor = 1;  // of an average, or a pre-multiplied sum
  bool scales_first = false, scales_second = false;
  int copies_first = 1, copies_second = 1;  // so many such operands, after scaling
  std::int64_t divisor = 0;                 // 0: values are not divided
};

/// `first` null: the identity of the reduction, or zeros; `second` null: nothing is added.
struct Piece {  // of less than 2 GiB
  const std::byte* first = nullptr;
  const std::byte* second = nullptr;
  std::byte* store = nullptr;
  std::byte* slot = nullptr;
  std::int64_t bytes = 0;
};

template <class T>
PRUNED_HD inline T filler(Reduce reduce) {
  switch (reduce) {
    case Reduce::kProduct:
      return identity<Reduce::kProduct, T>();
    case Reduce::kMin:
      return identity<Reduce::kMin, T>();
    case Reduce::kMax:
      return identity<Reduce::kMax, T>();
    default:
      return identity<Reduce::kSum, T>();
  }
}

template <class T>
PRUNED_HD inline T combined(Reduce reduce, T a, T b) {
  switch (reduce) {
    case Reduce::kProduct:
      return combine<Reduce::kProduct>(a, b);
    case Reduce::kMin:
      return combine<Reduce::kMin>(a, b);
    case Reduce::kMax:
      return combine<Reduce::kMax>(a, b);
    default:
      return combine<Reduce::kSum>(a, b);
  }
}

template <class T>
PRUNED_HD inline T repeated_by(Reduce reduce, T value, std::int64_t times) {
  switch (reduce) {
    case Reduce::kProduct:
      return repeated<Reduce::kProduct>(value, times);
    case Reduce::kMin:
    case Reduce::kMax:
      return value;
    default:
      return repeated<Reduce::kSum>(value, times);
  }
}

template <class T>
PRUNED_HD inline T scaled(T value, double factor) {
  if constexpr (Float<T>) {
    return narrowed<T>(widen(value) * static_cast<decltype(widen(value))>(factor));
  } else {
    return static_cast<T>(value * static_cast<T>(factor));
  }
}

template <class T>
PRUNED_HD inline T divided(T value, std::int64_t divisor) {
  if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(value / divisor);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(value / static_cast<std::uint64_t>(divisor));
  } else {
    return value;
  }
}

/// One element, by all of the rule.
template <class T>
PRUNED_HD inline T value_of(const Rule& rule, T first, const T* second) {
  T value = rule.scales_first ? scaled(first, rule.factor) : first;
  value = rule.copies_first > 1 ? repeated_by(rule.reduce, value, rule.copies_first) : value;
  if (second != nullptr) {
    T other = rule.scales_second ? scaled(*second, rule.factor) : *second;
    other = rule.copies_second > 1 ? repeated_by(rule.reduce, other, rule.copies_second) : other;
    value = combined(rule.reduce, value, other);
  }
  return rule.divisor != 0 ? divided(value, rule.divisor) : value;
}

PRUNED_HD inline bool is_plain(const Rule& rule, const Piece& piece) {
  return piece.first != nullptr && !rule.scales_first && !rule.scales_second && rule.divisor == 0 &&
         rule.copies_first == 1 && rule.copies_second == 1;
}

/// A sum whose last operand is scaled, and nothing else.
PRUNED_HD inline bool is_scaled_sum(const Rule& rule, const Piece& piece) {
  const bool on_second = piece.second != nullptr;
  return rule.reduce == Reduce::kSum && rule.scales_first == !on_second && rule.scales_second == on_second &&
         rule.divisor == 0 && rule.copies_first == 1 && rule.copies_second == 1;
}

PRUNED_HD inline bool on_packs(const Piece& piece) {
  const auto all = reinterpret_cast<std::uintptr_t>(piece.first) | reinterpret_cast<std::uintptr_t>(piece.second) |
                   reinterpret_cast<std::uintptr_t>(piece.store) | reinterpret_cast<std::uintptr_t>(piece.slot);
  return all % sizeof(Pack) == 0;
}

PRUNED_HD inline void put(const Piece& piece, int i, const Pack& value) {
  if (piece.slot != nullptr) {
    reinterpret_cast<Pack*>(piece.slot)[i] = value;
  }
  if (piece.store != nullptr) {
    reinterpret_cast<Pack*>(piece.store)[i] = value;
  }
}

/// `kInFlight` packs of each operand at once, made one by `make`; then all that are left at once.
template <int kInFlight, bool kTwo, class Team, class Make>
PRUNED_HD inline void merge_packs(const Team& team, const Piece& piece, int packs, Make make) {
  const auto* first = reinterpret_cast<const Pack*>(piece.first);
  const auto* second = reinterpret_cast<const Pack*>(piece.second);
  constexpr int stride = Team::kCount;
  int i = team.index();
  for (; i + (kInFlight - 1) * stride < packs; i += kInFlight * stride) {
    Pack a[kInFlight], b[kInFlight];
PRUNED_UNROLL
    for (int k = 0; k < kInFlight; ++k) {
      a[k] = load_pack(first + i + k * stride);
    }
PRUNED_UNROLL
    for (int k = 0; kTwo && k < kInFlight; ++k) {
      b[k] = load_pack(second + i + k * stride);
    }
PRUNED_UNROLL
    for (int k = 0; k < kInFlight; ++k) {
      put(piece, i + k * stride, make(a[k], b[k]));
    }
  }
  if (i < packs) {
    Pack a[kInFlight] = {}, b[kInFlight] = {};
PRUNED_UNROLL
    for (int k = 0; k < kInFlight - 1; ++k) {
      if (i + k * stride < packs) {
        a[k] = load_pack(first + i + k * stride);
        b[k] = kTwo ? load_pack(second + i + k * stride) : a[k];
      }
    }
PRUNED_UNROLL
    for (int k = 0; k < kInFlight - 1; ++k) {
      if (i + k * stride < packs) {
        put(piece, i + k * stride, make(a[k], b[k]));
      }
    }
  }
}

/// One value everywhere.
template <class T, class Team>
PRUNED_HD inline void fill_packs(const Team& team, const Piece& piece, int packs, T value) {
  Elements<T> filled;
PRUNED_UNROLL
  for (T& element : filled.at) {
    element = value;
  }
  const Pack pack = std::bit_cast<Pack>(filled);
  for (int i = team.index(); i < packs; i += Team::kCount) {
    put(piece, i, pack);
  }
}

/// What is scaled in packs of floats; whether this is such a piece.
template <class T, class Team>
PRUNED_HD inline bool merge_scaled(const Team& team, const Rule& rule, const Piece& piece, int packs) {
  if constexpr (Float<T>) {
    if (!is_scaled_sum(rule, piece)) {
      return false;
    }
    const double factor = rule.factor;
    if (piece.second == nullptr) {
      merge_packs<8, false>(team, piece, packs,
                            [=](const Pack& a, const Pack&) { return scaled_pack<T>(a, factor); });
    } else {
      merge_packs<8, true>(team, piece, packs,
                           [=](const Pack& a, const Pack& b) { return sum<T>(a, scaled_pack<T>(b, factor)); });
    }
    return true;
  } else {
    return false;
  }
}

template <class T, class Team>
PRUNED_HD inline void merge_by_rule(const Team& team, const Rule& rule, const Piece& piece, int packs) {
  if (piece.second == nullptr) {
    merge_packs<2, false>(team, piece, packs, [&](const Pack& a, const Pack&) {
      return each<T>(a, a, [&](T x, T) { return value_of<T>(rule, x, nullptr); });
    });
  } else {
    merge_packs<2, true>(team, piece, packs, [&](const Pack& a, const Pack& b) {
      return each<T>(a, b, [&](T x, T y) { return value_of<T>(rule, x, &y); });
    });
  }
}

/// Elements `from` and after.
template <class T, class Team>
PRUNED_HD inline void merge_elements(const Team& team, const Rule& rule, const Piece& piece, int from) {
  const auto* first = reinterpret_cast<const T*>(piece.first);
  const auto* second = reinterpret_cast<const T*>(piece.second);
  const int count = static_cast<int>(piece.bytes / static_cast<std::int64_t>(sizeof(T)));
  for (int i = from + team.index(); i < count; i += Team::kCount) {
    const T value = value_of(rule, first != nullptr ? first[i] : filler<T>(rule.reduce),
                             second != nullptr ? second + i : nullptr);
    if (piece.slot != nullptr) {
      reinterpret_cast<T*>(piece.slot)[i] = value;
    }
    if (piece.store != nullptr) {
      reinterpret_cast<T*>(piece.store)[i] = value;
    }
  }
}

template <class T, class Team>
PRUNED_APART PRUNED_HD void merge(const Team& team, const Rule& rule, const Piece& piece) {
  if (piece.store == nullptr && piece.slot == nullptr) {
    return;
  }
  int packs = on_packs(piece) ? static_cast<int>(piece.bytes / static_cast<std::int64_t>(sizeof(Pack))) : 0;
  if (piece.first == nullptr && piece.second == nullptr) {
    fill_packs<T>(team, piece, packs, value_of<T>(rule, filler<T>(rule.reduce), nullptr));
  } else if (piece.first == nullptr) {
    packs = 0;
  } else if (packs > 0) {
    if (is_plain(rule, piece) && piece.second == nullptr) {
      merge_packs<8, false>(team, piece, packs, [](const Pack& a, const Pack&) { return a; });
    } else if (is_plain(rule, piece) && (rule.reduce == Reduce::kSum || rule.reduce == Reduce::kAvg)) {
      merge_packs<8, true>(team, piece, packs, [](const Pack& a, const Pack& b) { return sum<T>(a, b); });
    } else if (!merge_scaled<T>(team, rule, piece, packs)) {
      merge_by_rule<T>(team, rule, piece, packs);
    }
  }
  merge_elements<T>(team, rule, piece, packs * static_cast<int>(sizeof(Pack) / sizeof(T)));
}

}  // namespace pruned::device
