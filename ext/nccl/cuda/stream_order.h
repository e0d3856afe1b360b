// The operations of a group one after the other, in the order of their calls, whatever streams they are put on.
//
// NCCL does the same for a communicator: programs put one's operations on several streams (FSDP has one for gathering
// and one for scattering) and join these for their data only. Two at one time would mix up the group's FIFOs.

#pragma once

#include "events.h"

namespace pruned::device {

/// An event of the current device that only says what comes after what.
Event order_event();

class StreamOrder {
 public:
  /// What is put on the stream from here on comes after the last operation.
  void begin(cudaStream_t stream);
  /// An operation has been put on the stream.
  void end(cudaStream_t stream);

 private:
  Event ended_;                     // the last operation
  unsigned long long capture_ = 0;  // of the graph that it is in; 0: in none
};

}  // namespace pruned::device
