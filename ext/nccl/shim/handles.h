// The handles of communicators of ours, apart from those of the real library, which calls its own functions by name and
// so comes through here too. A handle of ours is an address in one array, so that telling them apart is a comparison.

#pragma once

#include <memory>

#include "abi.h"

namespace pruned::shim {

class Communicator;

/// Whether this is a handle that add() gave, of a communicator that may be gone.
bool is_ours(Comm handle) noexcept;

/// Throws Failure if the communicator is gone. Takes no lock.
Communicator& communicator(Comm handle);

/// Its handle, which is never given again. Throws Failure if this process has made too many.
Comm add_communicator(std::unique_ptr<Communicator> communicator);

/// From now on it is gone. What it leaves is kept until the process ends, since another thread may be asking it still.
void remove_communicator(Comm handle) noexcept;

}  // namespace pruned::shim
