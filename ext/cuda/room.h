// Asking for physical memory that another rank would have to give back.
//
// The thread that asks may hold torch's allocator lock and the interpreter's, so nothing of this process may be needed
// for the answer: it comes through a socket, from another process.

#pragma once

#include <cstdint>

namespace residency {

/// Ask through this descriptor from now on; -1: do not ask.
void ask_through(int descriptor);

/// Bytes that are better left free where others may ask too: contexts of ranks to come, and what kernels take.
constexpr std::uint64_t kSpare = std::uint64_t{1536} << 20;

/// Ask until the device has `bytes` and what is better left, or there is no room to be had.
void leave_room(std::uint64_t bytes);

/// Ask for `bytes`; returns once it is worth trying again, or false: there is no room to be had, or nobody to ask.
bool ask_for_room(std::uint64_t bytes);

}  // namespace residency
