// The groups of tests of the device engine that run on a CPU.

#pragma once

namespace pruned::device::testing {

void test_rings();
void test_clock();
void test_pacing();
void test_messages();

}  // namespace pruned::device::testing
