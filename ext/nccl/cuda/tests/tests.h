// The groups of tests of the device engine that run on a CPU.

#pragma once

namespace pruned::device::testing {

void test_rings();
void test_device_clock();
void test_clock();
void test_pacing();
void test_messages();
void test_payloads();
void test_prefetch();
void test_detour();
void test_peer_memory();
void test_stream_order();
void test_endings();
void test_replicas();

}  // namespace pruned::device::testing
