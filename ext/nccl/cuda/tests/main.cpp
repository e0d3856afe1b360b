// Runs all groups; the exit status is 1 if a check failed.

#include <iostream>

#include "../../tests/check.h"
#include "tests.h"

int main() {
  pruned::device::testing::test_rings();
  pruned::device::testing::test_device_clock();
  pruned::device::testing::test_clock();
  pruned::device::testing::test_pacing();
  pruned::device::testing::test_messages();
  pruned::device::testing::test_payloads();
  pruned::device::testing::test_prefetch();
  pruned::device::testing::test_detour();
  pruned::device::testing::test_peer_memory();
  pruned::device::testing::test_stream_order();
  pruned::device::testing::test_endings();
  pruned::device::testing::test_replicas();
  std::cout << pruned::testing::checks << " checks, " << pruned::testing::failures << " failures\n";
  return pruned::testing::failures == 0 ? 0 : 1;
}
