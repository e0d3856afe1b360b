// Memory of another process is waited for until it comes, or until somebody gives up.

#include <thread>

#include "../../tests/check.h"
#include "../../tests/harness.h"
#include "../check.h"
#include "../peer_memory.h"
#include "tests.h"

namespace pruned::device::testing {

void test_peer_memory() {
  const pruned::testing::TemporaryDirectory folder;
  const std::string path = folder.path() / "group-to1";
  std::byte memory[1];

  std::atomic<bool> given_up = false;
  std::thread comes([&] { offer_memory(path, memory); });
  CHECK(PeerMemory(path, given_up).data() == memory, "what the other offers");
  comes.join();

  std::thread gives_up([&] { given_up = true; });
  pruned::testing::check_throws<Failure>([&] { PeerMemory(path + "0", given_up); }, "nobody comes any more");
  gives_up.join();
}

}  // namespace pruned::device::testing
