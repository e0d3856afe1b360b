// The engine on a GPU: `check` holds it to rings of N real ranks, bit for bit; `speed` measures it; `pair` checks two
// sandbox members, a process each, on one GPU; `scenes` are graphs, messages, time, and a driver that is held;
// `payloads` measures what reads them ahead. ARC_DEVICE is the GPU that virtual members use, if it is another one. Exit
// status 1 if something differs.

#include <cstdio>
#include <cstring>
#include <string>

#include "checks.h"
#include "payload_speed.h"
#include "scenes.h"
#include "speed.h"

int main(int argc, char** argv) {
  using namespace pruned::device::on_device;
  const std::string what = argc > 1 ? argv[1] : "";
  try {
    if (what == "check") {
      return check_single(argc > 2 ? std::stoi(argv[2]) : 0, argc > 3 ? std::stoi(argv[3]) : 0) ? 0 : 1;
    }
    if (what == "pair") {
      return check_pair() ? 0 : 1;
    }
    if (what == "scenes") {
      const bool graph = check_graph(), messages = check_messages(), paced = check_paced();
      return check_detour() && graph && messages && paced ? 0 : 1;
    }
    if (what == "payloads") {
      measure_payloads();
      return 0;
    }
    if (what == "speed") {
      measure_speed(argc > 2 ? std::stoi(argv[2]) : 0);
      return 0;
    }
  } catch (const std::exception& error) {
    std::printf("failed: %s\n", error.what());
    return 1;
  }
  std::puts("give it: check [MODE [SIZE]] | pair | scenes | payloads | speed [CHANNELS]");
  return 2;
}
