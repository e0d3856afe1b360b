// Time on devices is ../pace.h's: each send of each arc is released when the CPU engine would release it.

#include "../../pace.h"
#include "../../tests/check.h"
#include "../host_team.h"
#include "../ring_clock.h"
#include "releases.h"
#include "stage.h"
#include "tests.h"

namespace pruned::device::testing {
namespace {

constexpr Sizes kSizes{.chunk = 64, .slice = 16};

void check(const Op& op, const Arc& arc) {
  const ArcPlan plan(op, kSizes, arc);
  Times times{.posts = {}, .latency = 1'000'003, .transfer = 77'777'777};
  for (int i = 0; i < arc.members; ++i) {
    times.posts.push_back(5'000'000'000 + (i * 7919) % 1'000'003);
  }
  const Releases releases(plan, times, 4);
  RingJob job;
  job.outline = outline_of(op);
  job.block = block_of(op);
  job.sizes = kSizes;
  job.rank = arc.before();
  job.arc_members = arc.members;
  job.shown.releases = releases.words();
  const Planned planned{.kind = 0, .dtype = 0, .reduce = 0, .root = op.root, .count = op.count, .op = 0, .entry = 4,
                        .latency = times.latency, .transfer = times.transfer};
  const EvenArcPlan even(job.outline, job.blocks(), job.sizes, job.arc());
  HostTeam team(nullptr);
  RingClock clock(job, planned, even);
  Pace pace(plan, times);
  clock.begin(team);
  std::vector<std::int64_t> latest;
  for (std::int64_t send = 0; send < plan.sends(); ++send) {
    while (!pace.known(send)) {
      const auto receive = static_cast<std::int64_t>(latest.size());
      const std::int64_t stamp = 5'000'500'000 + receive * 100'000 + receive % 3 * 400'000;
      pace.arrived(stamp);
      latest.push_back(clock.arrived(latest.empty() ? 0 : latest.back(), receive, stamp));
    }
    const std::int64_t needed = plan.needs(send);
    clock.next(team, send, needed >= 0 ? &latest[static_cast<std::size_t>(needed)] : nullptr);
    CHECK(clock.release(0, 1) == pace.release(send),
          pruned::testing::describe(op, {arc.before()}) + ", send " + std::to_string(send));
  }
}

}  // namespace

void test_clock() {
  for (int size = 2; size <= 9; ++size) {
    for (int members = 1; members < size; ++members) {
      for (const Kind kind :
           {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather, Kind::kBroadcast, Kind::kReduce}) {
        const std::int64_t count = kind == Kind::kReduceScatter ? 70 * size : 70;
        check({.kind = kind, .dtype = Dtype::kFloat32, .reduce = reduces(kind) ? Reduce::kSum : Reduce::kNone,
               .root = members % size, .size = size, .count = count},
              {size, 1 % size, members});
      }
    }
  }
}

/// Nobody is done before the last post, the latency and the transfer are over; who is aborted is done at once.
void test_pacing() {
  for (const int groups : {1, 2}) {
    Stage stage(4, {1}, kSizes);
    const Op op{.kind = Kind::kAllReduce, .dtype = Dtype::kFloat32, .reduce = Reduce::kSum, .size = 4, .count = 100};
    Act act{.op = op, .mode = Mode::kLeft, .inputs = pruned::testing::random_inputs(op, 1), .brought = {{}},
            .outputs = {pruned::testing::Bytes(400)}, .channels = 2, .groups = groups, .lines = groups > 1, .latency = 3'000'000,
            .transfer = 2'000'000};
    const std::int64_t post = HostTeam(nullptr).now();  // the member posts later
    const ArcPlan plan(op, kSizes, {4, 1, 3});
    const Releases releases(plan, {.posts = {post, post, post}, .latency = act.latency, .transfer = act.transfer}, 0);
    stage.releases = {std::vector<std::int64_t>(releases.words(), releases.words() + releases.size())};
    stage.run(act);
    const std::int64_t took = HostTeam(nullptr).now() - post;
    CHECK(took >= act.latency + act.transfer - 10, std::to_string(groups) + " groups ended after " + std::to_string(took) + " ns");
    CHECK(stage.posted[0] > 0, "its own post");

    stage.releases[0][kHeaderWords] = 0;  // the next operation's are never there
    std::thread ends([&] { std::atomic_ref(stage.aborted).store(1); });
    stage.run(act);
    ends.join();
    CHECK(stage.aborted == 1, "aborted");
  }
}

}  // namespace pruned::device::testing
