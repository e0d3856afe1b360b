#include "exchange.h"

#include <cstring>

namespace pruned {

void Sending::advance(Outlet& outlet, std::int64_t stamp) {
  const std::size_t size = next();
  if (data_ == nullptr) {
    std::memset(outlet.slot().data(), 0, size);
  } else if (size > 0) {
    std::memcpy(outlet.slot().data(), data_ + sent_, size);
  }
  outlet.publish(size, mark_, stamp);
  sent_ += size;
  done_ = sent_ == bytes_;
}

double Sending::next_share() const {
  return bytes_ == 0 ? 1.0 : static_cast<double>(sent_ + next()) / static_cast<double>(bytes_);
}

void Receiving::advance(Inlet& inlet) {
  const std::size_t size = std::min(kSlotBytes, bytes_ - received_);
  const Slice slice = inlet.front(size, mark_);
  if (data_ != nullptr && size > 0) {
    std::memcpy(data_ + received_, slice.data.data(), size);
  }
  inlet.release();
  received_ += size;
  done_ = received_ == bytes_;
}

}  // namespace pruned
