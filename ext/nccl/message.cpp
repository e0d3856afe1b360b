#include "message.h"

namespace pruned {

bool MessageSend::advance() {
  due_ = kNever;
  if (done() || !outlet_.ready()) {
    return false;
  }
  if (start_ == 0 && duration_ == 0) {
    sending_.advance(outlet_);
    return true;
  }
  const auto part = static_cast<std::int64_t>(static_cast<double>(duration_) * sending_.next_share());
  const std::int64_t time = start_ + part, at = let_go(time);
  if (now() < at) {
    due_ = at;
    return false;
  }
  sending_.advance(outlet_, time);
  return true;
}

bool MessageReceive::advance() {
  if (done() || !inlet_.ready()) {
    return false;
  }
  receiving_.advance(inlet_);
  return true;
}

}  // namespace pruned
