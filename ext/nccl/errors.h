// What can go wrong in a collective that runs. Wrong arguments are std::invalid_argument, the system's refusals
// std::system_error.

#pragma once

#include <stdexcept>

namespace pruned {

/// Somebody called abort() on the directory.
struct Aborted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The process at the other end of a FIFO has ended.
struct PeerLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The other end of a FIFO runs another operation, or the same with another size.
struct Mismatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace pruned
