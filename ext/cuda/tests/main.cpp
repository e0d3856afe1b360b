// The residency library over a fake CUDA: what comes back is what went out, whatever else happens meanwhile.

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../api.h"
#include "check.h"
#include "fake.h"

extern "C" int cudaMalloc(void** pointer, std::size_t bytes);
extern "C" int cudaFree(void* pointer);

namespace {

using residency::testing::check;
using residency::testing::same;

constexpr std::size_t kMiB = std::size_t{1} << 20;
std::filesystem::path folder, disk;

struct Block {
  unsigned char* at;
  std::size_t bytes;
  std::uint64_t seed;
};

void fill(const Block& block) {
  std::mt19937_64 random(block.seed);
  for (std::size_t at = 0; at + 8 <= block.bytes; at += 4096 - 8) {  // a word in every page, never at the same place
    const std::uint64_t word = random();
    std::memcpy(block.at + at, &word, 8);
  }
}

bool whole(const Block& block) {
  std::mt19937_64 random(block.seed);
  for (std::size_t at = 0; at + 8 <= block.bytes; at += 4096 - 8) {
    const std::uint64_t word = random();
    if (std::memcmp(block.at + at, &word, 8) != 0) {
      return false;
    }
  }
  return true;
}

Block allocate(std::size_t bytes, std::uint64_t seed = 1) {
  void* at = nullptr;
  same(cudaMalloc(&at, bytes), 0, "cudaMalloc");
  const Block block{static_cast<unsigned char*>(at), bytes, seed};
  fill(block);
  return block;
}

void release(const Block& block) { same(cudaFree(block.at), 0, "cudaFree"); }

void open_pool(const char* name, std::uint32_t slots) {
  std::filesystem::remove(folder / name);
  same(residency_open((folder / name).c_str(), slots, 1), RESIDENCY_DONE, residency_error());
}

residency_moved done(std::int32_t status, const residency_moved& moved) {
  same(status, RESIDENCY_DONE, residency_error());
  return moved;
}

residency_moved out() {
  residency_moved moved{};
  const auto status = residency_out(&moved);
  return done(status, moved);
}

residency_moved in(std::uint32_t patience = 0) {
  residency_moved moved{};
  const auto status = residency_in(patience, &moved);
  return done(status, moved);
}

std::vector<residency_tally> calls() {
  std::vector<residency_tally> tallies(RESIDENCY_CALLS);
  residency_read_calls(tallies.data());
  return tallies;
}

void refused(std::int32_t status, std::int32_t wanted, const std::string& words) {
  same(status, wanted, residency_error());
  check(std::string(residency_error()).find(words) != std::string::npos, residency_error());
}

void test_contents() {
  open_pool("contents", 8);
  const std::vector<Block> blocks{allocate(2 * kMiB, 1), allocate(33 * kMiB, 2), allocate(100 * kMiB + 5, 3)};
  const Block small = allocate(1000, 4);
  for (int turn = 0; turn < 3; ++turn) {
    same(fake_in_use(), (2 + 34 + 102) * kMiB, "memory before");
    const auto moved = out();
    same(moved.bytes, (2 + 34 + 102) * kMiB, "bytes out");
    same(fake_in_use(), 0u, "memory while out");
    same(in().bytes, moved.bytes, "bytes in");
    for (const Block& block : blocks) {
      check(whole(block), "contents after a switch");
      fill(block);
    }
  }
  check(whole(small), "a small block stays");
  same(fake_pinned(), 5 * 32 * kMiB, "slots are pinned once");
  same(fake_empty_pins(), 0, "slots pinned before the kernel had given their memory");
  residency_figures figures{};
  residency_read(&figures);
  same(figures.segments, 3u, "segments");
  same(figures.passed, 1u, "small requests");
  for (const Block& block : blocks) {
    release(block);
  }
  release(small);
  same(fake_in_use(), 0u, "memory at the end");
}

/// What cudaMalloc of driver 580 did on one H200, as distances in MiB from the end of the first block.
void test_places() {
  std::vector<Block> blocks;
  const auto place = [&](std::size_t mib, std::ptrdiff_t wanted) {
    static unsigned char* top = nullptr;
    blocks.push_back(allocate(mib * kMiB, mib));
    top = blocks.size() == 1 ? blocks.front().at + 32 * kMiB : top;
    same((top - blocks.back().at) / static_cast<std::ptrdiff_t>(kMiB), wanted, "place of " + std::to_string(mib));
  };
  const std::pair<std::size_t, std::ptrdiff_t> seen[] = {
      {20, 32}, {20, 64}, {2, 44}, {2, 42}, {64, 128}, {20, 160}, {130, 320}, {2, 190}, {20, 188}, {34, 384}, {2, 350}, {20, 348}};
  for (const auto& [mib, wanted] : seen) {
    place(mib, wanted);
  }
  release(blocks[6]);
  release(blocks[4]);
  place(20, 320);  // the lowest gap, in the block that 130 left
  place(64, 300);
  place(66, 480);  // no gap, and no room between blocks
  for (const std::size_t left : {0, 1, 2, 3, 5, 7, 8, 9, 10, 11, 12, 13, 14}) {
    release(blocks[left]);
  }
}

/// What lies side by side comes in together; the first alone, because nothing is copied until it is there.
void test_neighbours_come_together() {
  open_pool("neighbours", 32);
  std::vector<Block> blocks;
  for (std::uint64_t seed = 20; seed < 26; ++seed) {
    blocks.push_back(allocate(32 * kMiB, seed));
  }
  release(blocks[1]);
  out();
  const int before = fake_openings();
  in();
  same(fake_openings() - before, 3, "openings of the first, of its 3 neighbours and of the one apart");
  for (const Block& block : blocks) {
    if (block.seed != blocks[1].seed) {
      check(whole(block), "contents of neighbours");
      release(block);
    }
  }
}

/// A switch is a pipeline: memory is given up, and taken, while the chunks after it, and before it, are under way.
void test_moves_overlap() {
  open_pool("overlap", 16);
  const Block block = allocate(3 * 128 * kMiB, 27);  // three chunks
  const auto before = calls();
  const int releases = fake_releases_beside_copies(), creations = fake_creations_beside_copies();
  out();
  same(fake_releases_beside_copies() - releases, 2, "chunks given up beside copies: all but the last");
  in();
  same(fake_creations_beside_copies() - creations, 2, "chunks made beside copies: all but the first");
  const auto after = calls();
  const auto counted = [&](residency_call kind) { return after[kind].count - before[kind].count; };
  for (const auto kind : {RESIDENCY_CALL_CREATE, RESIDENCY_CALL_MAP, RESIDENCY_CALL_RELEASE}) {
    same(counted(kind), 3u, "calls for each chunk, kind " + std::to_string(kind));
  }
  same(counted(RESIDENCY_CALL_COPY), 24u, "copies, out and in");
  same(counted(RESIDENCY_CALL_OPEN), 3u, "openings, one a run");
  same(counted(RESIDENCY_CALL_UNMAP), 3u, "unmappings, one a run");
  same(counted(RESIDENCY_CALL_PAUSE), 0u, "pauses where there is room");
  check(after[RESIDENCY_CALL_COPY].ns > before[RESIDENCY_CALL_COPY].ns, "the time of copies");
  check(whole(block), "contents of runs");
  release(block);
}

/// Large handles come in first: while others copy out each takes as long to open, and small ones are cheap after that.
void test_large_handles_first() {
  open_pool("order", 16);
  std::vector<Block> blocks;
  for (const std::size_t mib : {20, 64, 20, 140, 100, 48}) {
    blocks.push_back(allocate(mib * kMiB, 40 + blocks.size()));
  }
  for (int turn = 0; turn < 2; ++turn) {
    out();
    const int before = fake_openings();
    in();
    same(fake_openings() - before, 7, "openings");
    int which = before;
    for (const std::size_t mib : {100, 128, 12, 64, 48, 20, 20}) {  // 140 are two handles
      same(fake_opened(which++), mib * kMiB, "an opening, in its turn");
    }
  }
  for (const Block& block : blocks) {
    check(whole(block), "contents, in whatever order they came");
    release(block);
  }
}

/// By the device's clock: where opening takes longer than copying, copies starve; where it does not, only at first.
void test_copies_starve() {
  constexpr std::uint64_t kMs = 1'000'000, kCopies = 3 * 128 * kMs;
  open_pool("starve", 16);
  const Block block = allocate(3 * 128 * kMiB, 28);
  const auto moved_in = [](double opening) {
    const auto gone = out();
    same(gone.copying, kCopies, "time of copies out");
    same(gone.starved, 0u, "copies out wait for nothing");
    fake_opening_takes(opening);
    const auto come = in();
    fake_opening_takes(0);
    return come;
  };
  const auto fast = moved_in(10);
  same(fast.copying, kCopies, "time of copies where opening is fast");
  same(fast.starved, 0u, "copies that do not starve");
  const auto slow = moved_in(200);
  same(slow.starved, 2 * (200 - 128) * kMs, "copies that starve");
  same(slow.copying - slow.starved, kCopies, "time of copies where opening is slow");
  check(whole(block), "contents");
  release(block);
}

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

void test_changes_while_out() {
  open_pool("changes", 8);
  const Block stays = allocate(40 * kMiB, 5), goes = allocate(50 * kMiB, 6);
  out();
  release(goes);
  const Block comes = allocate(10 * kMiB, 7);
  residency_figures figures{};
  residency_read(&figures);
  same(figures.bytes, 50 * kMiB, "bytes");
  same(figures.resident, 10 * kMiB, "what the device holds");
  in();
  check(whole(stays) && whole(comes), "contents of what stayed and what came");
  const Block again = allocate(50 * kMiB, 8);
  for (const Block& block : {stays, comes, again}) {
    release(block);
  }
}

void test_threads() {
  open_pool("threads", 32);
  const Block mine = allocate(64 * kMiB, 9);
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([seed] {
      std::mt19937_64 random(seed);
      for (int turn = 0; turn < 50; ++turn) {
        void* at = nullptr;
        same(cudaMalloc(&at, (2 + random() % 10) * kMiB), 0, "cudaMalloc beside a switch");
        same(cudaFree(at), 0, "cudaFree beside a switch");
      }
    });
  }
  for (int turn = 0; turn < 20; ++turn) {
    out();
    in();
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  check(whole(mine), "contents after switches beside other threads");
  release(mine);
  same(fake_in_use(), 0u, "memory after threads");
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
    std::uint64_t question[2];
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

int main(int, char** arguments) {
  std::signal(SIGXFSZ, SIG_IGN);
  folder = arguments[1];  // in memory
  disk = arguments[2];
  test_places();
  test_contents();
  test_neighbours_come_together();
  test_moves_overlap();
  test_large_handles_first();
  test_copies_starve();
  test_opening_fails_half_way();
  test_changes_while_out();
  test_threads();
  test_waits_for_memory();
  test_asks_for_room();
  test_pool_too_small();
  test_spill();
  return residency::testing::failures == 0 ? 0 : 1;
}
