// The residency library over a fake CUDA: `tests FOLDER-IN-MEMORY FOLDER-ON-DISK`.

#include <csignal>

#include "blocks.h"
#include "tests.h"

int main(int, char** arguments) {
  using namespace residency::testing;
  std::signal(SIGXFSZ, SIG_IGN);
  folder = arguments[1];
  disk = arguments[2];
  check_contents();
  check_order();
  check_refusals();
  return failures == 0 ? 0 : 1;
}
