#include "stage.h"

#include <sys/mman.h>

#include <cstdlib>
#include <thread>

#include "../dtypes.h"
#include "../host_team.h"

namespace pruned::device::testing {

namespace {

constexpr std::size_t kHuge = std::size_t{1} << 26;

}  // namespace

Zeros::Zeros(std::size_t bytes) : data_(static_cast<std::byte*>(std::calloc(bytes, 1))) {}

void Zeros::Free::operator()(std::byte* data) const { std::free(data); }

struct Stage::Place {
  Zeros inlet{static_cast<std::size_t>(fifo_bytes(kMaxChannels))};      // to the member
  Zeros arc_inlet{static_cast<std::size_t>(fifo_bytes(kMaxChannels))};  // to the arc before it
  Zeros left_credits{kMaxChannels * sizeof(FifoCredits)}, right_credits{kMaxChannels * sizeof(FifoCredits)};
  Zeros stash{kHuge};
  std::vector<std::int64_t> arrivals = std::vector<std::int64_t>(64 * kMaxChannels);
  std::vector<std::uint64_t> counts = std::vector<std::uint64_t>(2 * kMaxChannels * kCountStride);
  std::vector<Planned> planned;
  Payload payload{};
  Progress progress{};
  std::int64_t posted = 0;
  std::int64_t moved[3] = {};
  std::uint64_t ended = 0;
  std::uint32_t looked = 0, failed = 0;
};

std::int64_t block_of(const Op& op) {
  return op.kind == Kind::kReduceScatter ? op.count / op.size : op.kind == Kind::kAllGather ? op.count : 0;
}

Stage::Stage(int size, std::vector<int> sandbox, Sizes sizes)
    : size_(size), sandbox_(std::move(sandbox)), sizes_(sizes) {
  for (std::size_t i = 0; i < sandbox_.size(); ++i) {
    places_.push_back(std::make_shared<Place>());
  }
}

int Stage::arc_members(int place) const {
  const int count = static_cast<int>(sandbox_.size());
  const int before = sandbox_[(place + count - 1) % count];
  return wrapped(sandbox_[place] - before - 1, size_);
}

RingJob Stage::job(Act& act, int place) {
  Place& own = *places_[place];
  const int next = (place + 1) % static_cast<int>(sandbox_.size());
  Place& right = *places_[next];
  const Brought& brought = act.brought[place];
  own.payload = {brought.has_head ? brought.head.data() : nullptr, brought.has_tail ? brought.tail.data() : nullptr,
                 brought.has_final ? brought.final.data() : nullptr, 1};
  own.planned.resize(number_ + 1);
  own.planned[number_] = {.kind = static_cast<std::int32_t>(act.op.kind), .dtype = 0, .reduce = 0, .root = act.op.root,
                          .count = act.op.count, .op = 0, .entry = 0, .latency = act.latency, .transfer = act.transfer};
  RingJob job;
  job.outline = outline_of(act.op);
  job.block = block_of(act.op);
  job.sizes = sizes_;
  job.dtype = act.op.dtype;
  job.rank = sandbox_[place];
  job.mode = act.mode;
  job.rule = rule_of(act.op.dtype, act.op.reduce, act.op.size);
  job.input = act.inputs[job.rank].data();
  job.published = job.input;
  job.output = act.outputs[place].empty() ? nullptr : act.outputs[place].data();
  job.left = reinterpret_cast<FifoChannel*>(own.inlet.data());
  job.arc_members = arc_members(place);
  job.arc_in = reinterpret_cast<FifoChannel*>(own.arc_inlet.data());
  job.right = reinterpret_cast<FifoChannel*>(arc_members(next) > 0 ? right.arc_inlet.data() : right.inlet.data());
  if (arc_members(place) > 0) {
    job.left_credits = reinterpret_cast<FifoCredits*>(own.left_credits.data());
    job.right_credits = sandbox_.size() == 1 ? reinterpret_cast<FifoCredits*>(own.right_credits.data()) : nullptr;
  }
  job.stash = {.data = own.stash.data(), .stride = 1 << 16, .window = is_chain(act.op.kind) ? 16 : size_,
               .arrivals = own.arrivals.data(), .received = own.counts.data(),
               .sent = own.counts.data() + kMaxChannels * kCountStride};
  job.channels = act.channels;
  job.parts = act.channels / act.groups;
  job.lines = act.lines;
  job.planned = own.planned.data();
  job.payloads = &own.payload;
  job.number = number_ % 2 == 0 ? static_cast<std::int64_t>(number_) : -1;  // by either way
  job.planned_count = static_cast<std::int64_t>(own.planned.size());
  job.progress = &own.progress;
  job.shown = {.posted = &own.posted, .moved = own.moved,
               .releases = releases.empty() ? nullptr : releases[place].data(), .ended = &own.ended,
               .looked = &own.looked, .failed = &own.failed, .aborted = &aborted};
  return job;
}

void Stage::run(Act& act) {
  std::vector<RingJob> jobs;
  for (int place = 0; place < static_cast<int>(sandbox_.size()); ++place) {
    jobs.push_back(job(act, place));
  }
  std::vector<std::thread> threads;
  for (const RingJob& job : jobs) {
    for (int party = 0; party < parties(job); ++party) {
      for (int channel = 0; channel < job.channels; ++channel) {
        threads.emplace_back([&job, party, channel] {
          HostTeam team(job.shown.aborted);
          with_type(reduces(job.outline.kind) ? job.dtype : Dtype::kUint8, [&]<class T>(T*) {
            run_ring<T>(team, job, static_cast<Party>(party), channel);
          });
        });
      }
    }
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  moved.clear();
  posted.clear();
  for (const auto& place : places_) {
    moved.push_back({place->moved[0], place->moved[1], place->moved[2]});
    posted.push_back(place->posted);
  }
  ++number_;
}

}  // namespace pruned::device::testing
