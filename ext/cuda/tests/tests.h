// The tests, in the order in which they run: places are those of the first blocks, and what is corrupt stays so.

#pragma once

namespace residency::testing {

void check_contents();
void check_order();
void check_refusals();

}  // namespace residency::testing
