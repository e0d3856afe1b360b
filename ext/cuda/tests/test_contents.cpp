// What comes back is what went out, at the place that the driver would choose, whatever else happens meanwhile.

#include <thread>
#include <utility>

#include "blocks.h"
#include "fake.h"
#include "tests.h"

namespace residency::testing {

namespace {

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
      {20, 32},   {20, 64}, {2, 44},   {2, 42},   {64, 128}, {20, 160},
      {130, 320}, {2, 190}, {20, 188}, {34, 384}, {2, 350},  {20, 348}};
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

}  // namespace

void check_contents() {
  test_places();
  test_contents();
  test_changes_while_out();
  test_threads();
}

}  // namespace residency::testing
