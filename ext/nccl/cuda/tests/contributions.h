// Operations with all that virtual members bring to them, and what a ring of N real ranks makes of them.

#pragma once

#include "stage.h"

namespace pruned::device::testing {

/// An operation whose `outputs` are what the sandbox members must get. With kLeft the inputs of virtual members change
/// nothing but that of the first arc's last member.
Act act_of(const Op& op, const std::vector<int>& sandbox, Mode mode, Sizes sizes, unsigned seed);

}  // namespace pruned::device::testing
