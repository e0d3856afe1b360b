// How a move is carried out: what comes first, what goes beside what, and what had to wait.

#include "blocks.h"
#include "fake.h"
#include "tests.h"

namespace residency::testing {

namespace {

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

}  // namespace

void check_order() {
  test_neighbours_come_together();
  test_moves_overlap();
  test_large_handles_first();
  test_copies_starve();
}

}  // namespace residency::testing
