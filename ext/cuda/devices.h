// More devices than there are: a rank of a node of eight sees eight, and all of them are the one that it has.

#pragma once

namespace residency {

/// The device that the calling thread has set, as the program numbers devices.
int current_device();

}  // namespace residency
