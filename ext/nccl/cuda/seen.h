// Words of the host's memory that the device writes.

#pragma once

#include <atomic>

namespace pruned::device {

template <class T>
T seen(const T& word) {
  return std::atomic_ref(const_cast<T&>(word)).load(std::memory_order_acquire);
}

}  // namespace pruned::device
