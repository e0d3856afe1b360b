// How fast payloads come to the device from files that lie in memory.

#pragma once

namespace pruned::device::on_device {

/// Prints a row for each number of readers: GB/s from the start of the threads until the last payload is there.
void measure_payloads();

}  // namespace pruned::device::on_device
