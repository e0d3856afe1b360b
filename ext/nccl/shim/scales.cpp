#include "scales.h"

#include <algorithm>
#include <string>

#include "failure.h"

namespace pruned::shim {

int Scales::add(const Scale& scale) {
  const std::lock_guard lock(guard_);
  auto place = std::find_if(places_.begin(), places_.end(), [](const Place& each) { return !each.taken; });
  if (place == places_.end()) {
    place = places_.emplace(places_.end());
  }
  *place = Place{scale, true};
  return kStaticOps + static_cast<int>(place - places_.begin());
}

void Scales::remove(int op) {
  const std::lock_guard lock(guard_);
  places_[checked(op)].taken = false;
}

Scale Scales::at(int op) const {
  const std::lock_guard lock(guard_);
  return places_[checked(op)].scale;
}

std::size_t Scales::checked(int op) const {
  const std::size_t place = static_cast<std::size_t>(op) - kStaticOps;
  if (op < kStaticOps || place >= places_.size() || !places_[place].taken) {
    throw Failure(kInvalidArgument, "this communicator has no reduction " + std::to_string(op));
  }
  return place;
}

}  // namespace pruned::shim
