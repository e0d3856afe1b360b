// The rule of a member's input, as an nccl call has it.

#pragma once

#include <cstring>

#include "dtypes.h"
#include "engine.h"

namespace pruned::device {

/// A pre-multiplied sum is one whose inputs are scaled, by a number that is read now unless it lies on the device.
inline Rule rule_of(const Work& work, int size) {
  Rule rule = rule_of(work.dtype, work.reduce, size);
  if (work.scale == nullptr) {
    return rule;
  }
  rule.scales_first = true;
  if (!work.scale_on_device) {
    with_type(work.dtype, [&]<class T>(T*) {
      T value;
      std::memcpy(&value, work.scale, sizeof value);
      if constexpr (Float<T>) {
        rule.factor = static_cast<double>(widen(value));
      } else {
        rule.factor = static_cast<double>(value);
      }
    });
  }
  return rule;
}

}  // namespace pruned::device
