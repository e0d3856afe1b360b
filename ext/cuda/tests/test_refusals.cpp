// Where there is no room, on the device, in the pool or on a disk: nothing is lost, and nothing stays.

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <thread>
#include <utility>

#include "blocks.h"
#include "fake.h"
#include "tests.h"

namespace residency::testing {

namespace {

/// Half of the memory is open, and under way, when no more can be: what was begun ends, and all of it is given back.
void test_opening_fails_half_way() {
  open_pool("half way", 16);
  const std::vector<Block> blocks{allocate(2 * 128 * kMiB, 29), allocate(20 * kMiB, 30)};
  out();
  constexpr int kNoMemory = 2, kBroken = 999;
  residency_moved moved{};
  for (const auto& [result, status] : {std::pair{kNoMemory, RESIDENCY_DEVICE_FULL}, {kBroken, RESIDENCY_FAILED}}) {
    fake_refuse_openings(result, 2);
    refused(residency_in(0, &moved), status, result == kBroken ? "cuMemSetAccess" : "no room");
    same(fake_in_use(), 0u, "nothing stays of memory that could not be opened");
  }
  fake_refuse_openings(kNoMemory, 0);
  void* none = nullptr;
  same(cudaMalloc(&none, 40 * kMiB), 2, "cudaMalloc of what cannot be opened");
  same(fake_in_use(), 0u, "nothing stays of what was refused");
  fake_refuse_openings(0, 0);
  in();
  for (const Block& block : blocks) {
    check(whole(block), "contents after openings that failed");
    release(block);
  }
}

void test_waits_for_memory() {
  open_pool("waits", 8);
  const Block block = allocate(150 * kMiB, 10);  // two chunks, of which one finds room
  out();
  fake_memory(140 * kMiB);
  residency_moved moved{};
  refused(residency_in(0, &moved), RESIDENCY_DEVICE_FULL, "no room");
  same(fake_in_use(), 0u, "nothing stays of an attempt that failed");
  std::thread other([] {
    while (calls()[RESIDENCY_CALL_PAUSE].count < 3) {
      std::this_thread::yield();
    }
    fake_memory(1024 * kMiB);
  });
  in(60'000);
  other.join();
  check(whole(block), "contents after waiting for memory");
  release(block);
}

void test_asks_for_room() {
  fake_memory(64 * kMiB);
  int line[2];
  same(socketpair(AF_UNIX, SOCK_STREAM, 0, line), 0, "socketpair");
  residency_ask_through(line[0]);
  std::vector<std::uint64_t> asked;
  std::thread coordinator([&] {
    std::uint64_t question[3];
    while (read(line[1], question, sizeof question) == sizeof question) {
      asked.push_back(question[0]);
      const bool more = asked.size() < 3;  // what is better left free is never there
      fake_memory(more ? 40 * kMiB * (asked.size() + 1) : 104 * kMiB);
      const char answer = more ? 1 : 0;
      same(write(line[1], &answer, 1), 1, "answer");
    }
  });
  const Block block = allocate(96 * kMiB, 11);
  void* none = nullptr;
  same(cudaMalloc(&none, 96 * kMiB), 2, "cudaMalloc where no room is made");
  residency_ask_through(-1);
  shutdown(line[0], SHUT_RDWR);
  coordinator.join();
  same(asked.size(), 5u, "questions");
  same(asked[0], 96 * kMiB, "what is needed");
  fake_memory(1024 * kMiB);
  check(whole(block), "contents");
  release(block);
  same(fake_in_use(), 0u, "memory after a refusal");
}

void test_pool_too_small() {
  open_pool("small", 2);
  const Block block = allocate(100 * kMiB, 12);
  residency_moved moved{};
  refused(residency_out(&moved), RESIDENCY_POOL_FULL, "2 of 2 slots of 32 MiB free, 4 are needed");
  check(whole(block), "nothing was moved");
  open_pool("larger", 4);
  fake_refuse_pins(1);
  same(residency_out(&moved), RESIDENCY_DEVICE_FULL, "a pin that is refused");
  out();
  in();
  check(whole(block), "contents after refusals");
  refused(residency_in(0, &moved), RESIDENCY_INVALID, "in without out");
  release(block);
}

void test_spill() {
  open_pool("spill", 4);
  const Block after = allocate(20 * kMiB, 14), block = allocate(40 * kMiB, 13);  // in the file the other way round
  const auto file = disk / "copy";
  residency_moved moved{};
  refused(residency_spill(file.c_str(), &moved), RESIDENCY_INVALID, "without out");
  out();
  refused(residency_spill((disk / "none" / "copy").c_str(), &moved), RESIDENCY_SPILL_FULL, "No such file");
  const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY}, tight{20 * kMiB, RLIM_INFINITY};
  setrlimit(RLIMIT_FSIZE, &tight);
  refused(residency_spill(file.c_str(), &moved), RESIDENCY_SPILL_FULL, "copy");
  setrlimit(RLIMIT_FSIZE, &unlimited);
  check(!std::filesystem::exists(file), "nothing stays of a file that could not be written");
  done(residency_spill(file.c_str(), &moved), moved);
  same(std::filesystem::file_size(file), 60 * kMiB, "the file");
  in();
  check(whole(block) && whole(after) && !std::filesystem::exists(file), "contents from disk, and the file has gone");
  out();
  done(residency_spill(file.c_str(), &moved), moved);
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(36 * kMiB).put('x');
  refused(residency_in(0, &moved), RESIDENCY_CORRUPT, "slot 1, its checksum is another");
  same(fake_in_use(), 0u, "nothing stays of a copy that is corrupt");
}

}  // namespace

void check_refusals() {
  test_opening_fails_half_way();
  test_waits_for_memory();
  test_asks_for_room();
  test_pool_too_small();
  test_spill();
}

}  // namespace residency::testing
