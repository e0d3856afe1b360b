// Reductions that a program makes for one communicator: a sum of inputs that are multiplied first.

#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <vector>

#include "../element.h"

namespace pruned::shim {

/// What inputs are multiplied by: a number of the type of the elements, here, or on the device until it is used.
struct Scale {
  Dtype dtype = Dtype::kNone;
  const void* device = nullptr;
  std::array<std::byte, 8> number = {};

  /// Where the number is, for a kernel's launch.
  const void* place() const { return device != nullptr ? device : number.data(); }
};

class Scales {
 public:
  /// The number of the new reduction: one that NCCL itself has not.
  int add(const Scale& scale);
  /// Throws Failure if there is no such reduction.
  void remove(int op);
  Scale at(int op) const;

 private:
  struct Place {
    Scale scale;
    bool taken = false;
  };

  std::size_t checked(int op) const;

  mutable std::mutex guard_;
  std::vector<Place> places_;
};

}  // namespace pruned::shim
