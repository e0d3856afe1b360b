// What tests ask of the fake driver and runtime that stand in for CUDA's.

#pragma once

#include <cstddef>

extern "C" {

/// Physical memory of the fake device, in bytes; what is in use stays in use.
void fake_memory(std::size_t total);
std::size_t fake_in_use();
/// How many times memory was opened for the device's use, whatever its size.
int fake_openings();
/// The bytes of one of them, counted from 0; 0 if there were not so many.
std::size_t fake_opened(int which);
/// What opening takes for each physical handle, by the device's clock, in which a copy of 1 MiB takes 1; 0 at first.
void fake_opening_takes(double time);
/// Let calls that open memory fail with this result, after so many that do not; 0: none of them.
void fake_refuse_openings(int result, int after);
/// How often physical memory was made, and given up, while copies were under way.
int fake_creations_beside_copies();
int fake_releases_beside_copies();
/// Let the next `count` calls that pin memory fail.
void fake_refuse_pins(int count);
/// How many slots were pinned that had no memory of the host yet.
int fake_empty_pins();
/// Bytes pinned now.
std::size_t fake_pinned();
/// Device index that the runtime last got.
int fake_device();
}
