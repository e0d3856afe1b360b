// From C++ to C: what is thrown becomes a status and a text, and what C gives becomes what the engine takes.

#pragma once

#include <functional>

#include "api.h"
#include "endpoint.h"

namespace pruned {

/// Runs it; a thrown error is noted for pruned_error(), and its status returned.
int guarded(const std::function<int()>& body) noexcept;

Op op_of(const pruned_op& op);
Membership membership_of(const pruned_membership& membership);
Times times_of(const pruned_pace& pace);

}  // namespace pruned
