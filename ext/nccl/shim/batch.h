// NCCL's groups of calls: what a thread gives between ncclGroupStart() and the ncclGroupEnd() that belongs to it is
// launched together.

#pragma once

#include <optional>

#include "communicator.h"

namespace pruned::shim {

/// A collective, or a message if there is one.
struct Call {
  Communicator* communicator = nullptr;
  Stream stream = nullptr;
  device::Work work = {};
  std::optional<Scale> scale = {};
  std::optional<device::Message> message = {};
};

void begin_batch() noexcept;
/// Launches what has gathered, if this ends the outermost group. Throws Failure; what comes after the call that fails
/// is dropped.
void end_batch();
/// Ends a group without launching anything.
void drop_batch() noexcept;

/// Launches it at once, or with its group.
void submit(const Call& call);

}  // namespace pruned::shim
