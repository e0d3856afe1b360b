// How fast the engine is, with nothing paced.

#pragma once

namespace pruned::device::on_device {

/// Prints a row for each of the sizes that matter; `channels` 0: by size.
void measure_speed(int channels);

}  // namespace pruned::device::on_device
