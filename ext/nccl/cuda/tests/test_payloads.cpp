// What is read ahead is laid out, queued and given room as it should be.

#include <map>
#include <random>

#include "../../tests/check.h"
#include "../load_queue.h"
#include "../payload_reader.h"
#include "../pool.h"
#include "tests.h"

namespace pruned::device::testing {
namespace {

Part part(std::int64_t nbytes) { return {"file", 0, nbytes}; }

void test_reading() {
  PlannedOp op{.planned = {}, .head = part(1), .tail = {}, .final = part(300), .partners = {}};
  const Reading arc = reading_of(op);
  CHECK(arc.head == 0 && arc.tail == -1 && arc.final == 256 && arc.bytes == 768, "parts begin at multiples of 256");

  op.partners = {{.peer = 0, .sends = true, .bytes = 8, .payload = {}},
                 {.peer = 2, .sends = false, .bytes = 8, .payload = part(8)},
                 {.peer = 5, .sends = false, .bytes = 8, .payload = part(8)}};
  const int sandbox[] = {1, 2};
  drop_unread(op, false, sandbox);
  std::vector<std::int64_t> offsets;
  const Reading messages = reading_of(op, &offsets);
  CHECK((offsets == std::vector<std::int64_t>{-1, -1, 0}) && messages.bytes == 256, "a virtual member's message only");
  CHECK(messages.head == 0 && messages.final == -1, "there is no arc that would bring the result");

  op.head = part(1);
  drop_unread(op, true, sandbox);
  CHECK(op.head.nbytes == 1, "the arc brings it");
}

Reading reading(std::initializer_list<std::int64_t> sizes) {
  Reading result;
  for (const std::int64_t nbytes : sizes) {
    result.parts.push_back({part(nbytes), result.bytes});
    result.bytes += 1000;
  }
  return result;
}

std::string told(LoadQueue& queue) {
  const FilePiece piece = queue.take().value();
  return std::to_string(piece.load->entry) + ":" + std::to_string(piece.first) + "+" + std::to_string(piece.bytes) +
         "@" + std::to_string(piece.to - piece.load->region);
}

void test_queue() {
  std::byte region[2000];
  const Reading readings[] = {reading({250, 100}), reading({1}), reading({150})};
  Load loads[3];
  LoadQueue queue(100);
  for (int entry = 0; entry < 3; ++entry) {
    loads[entry].reading = &readings[entry];
    loads[entry].entry = entry;
    loads[entry].region = region;
    queue.add(loads[entry]);
  }
  CHECK(loads[0].left == 350, "all of its parts are left");
  CHECK(told(queue) == "0:0+100@0" && told(queue) == "0:100+100@100", "in order");
  CHECK(queue.hurry(loads[2]), "nobody had begun it");
  CHECK(told(queue) == "2:0+100@0", "who is waited for is next");
  CHECK(!queue.hurry(loads[0]), "it had begun");
  CHECK(told(queue) == "0:200+50@200" && told(queue) == "0:0+100@1000", "it goes on where it was");
  CHECK(!queue.hurry(loads[0]), "it is with readers, all of it");
  CHECK(told(queue) == "2:100+50@100" && told(queue) == "1:0+1@0", "the others follow");
  queue.add(loads[1]);
  queue.close();
  CHECK(!queue.take().has_value(), "closed is closed, whatever is left");
}

/// Whatever comes and goes, nobody has bytes of another, and an empty pool has room for all.
void test_pool() {
  std::mt19937 random(7);  // NOLINT: the same every time
  RingPool pool(1000);
  std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> taken;
  std::int64_t oldest = 0, refused = 0;
  for (std::int64_t entry = 0; entry < 5000;) {
    const std::int64_t bytes = 1 + random() % (entry % 10 == 0 ? 1000 : 300);
    if (const auto at = pool.take(bytes, entry); at.has_value()) {
      CHECK(*at >= 0 && *at + bytes <= pool.bytes(), "outside of the pool");
      for (const auto& [other, range] : taken) {
        CHECK(*at + bytes <= range.first || range.second <= *at, std::to_string(entry) + " lies on another");
      }
      taken[entry++] = {*at, *at + bytes};
      continue;
    }
    CHECK(!taken.empty(), "an empty pool had no room");
    ++refused;
    taken.erase(oldest++);
    pool.give_back([&](std::int64_t other) { return other < oldest; });
  }
  CHECK(refused > 1000, "the pool was never full");
}

void test_readers() {
  CHECK(readers_for(1) == 1 && readers_for(2) == 1, "one reads, whatever the machine is");
  CHECK(readers_for(8) == 4 && readers_for(16) == 8, "half of the cores are the program's");
  CHECK(readers_for(128) == 8, "more would wait for the link");
}

}  // namespace

void test_payloads() {
  test_reading();
  test_queue();
  test_pool();
  test_readers();
}

}  // namespace pruned::device::testing
