// What tests ask of the fake driver and runtime that stand in for CUDA's.

#pragma once

#include <cstddef>

extern "C" {

/// Physical memory of the fake device, in bytes; what is in use stays in use.
void fake_memory(std::size_t total);
std::size_t fake_in_use();
/// How many times memory was opened for the device's use, whatever its size.
int fake_openings();
/// Let the next `count` calls that pin memory fail.
void fake_refuse_pins(int count);
/// Bytes pinned now.
std::size_t fake_pinned();
/// Device index that the runtime last got.
int fake_device();
}
