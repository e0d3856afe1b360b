// Messages on CPU threads: with virtual partners, whose payloads come and whose arrivals end nowhere, and between two
// sandbox members.

#include <thread>

#include "../../tests/check.h"
#include "../host_team.h"
#include "../message_parts.h"
#include "stage.h"
#include "tests.h"

namespace pruned::device::testing {
namespace {

Bytes pattern(std::int64_t bytes, int seed) {
  Bytes data(static_cast<std::size_t>(bytes));
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<std::byte>((i * 31 + static_cast<std::size_t>(seed)) % 251);
  }
  return data;
}

/// A member's memory around a launch.
struct Place {
  Zeros sink{kSinkSize + kMessageSlice};
  Payload payload{};
  Progress progress{};
  std::vector<PartnerTime> times = std::vector<PartnerTime>(4, PartnerTime{0, 0, -1});
  std::int64_t posted = 0;
  std::int64_t moved[3] = {};
  std::uint64_t ended = 0;

  MessageJob job(int count, int channels) {
    MessageJob job;
    job.count = count;
    job.channels = channels;
    job.op = 0;
    job.payloads = &payload;
    job.times = times.data();
    job.partners = static_cast<int>(times.size());
    job.sink = sink.data();
    job.progress = &progress;
    job.shown = {.posted = &posted, .moved = moved, .releases = nullptr, .ended = &ended, .looked = nullptr,
                 .failed = nullptr, .aborted = nullptr};
    return job;
  }
};

void run(const std::vector<MessageJob*>& jobs) {
  std::vector<std::thread> threads;
  for (const MessageJob* job : jobs) {
    for (int index = 0; index < job->count; ++index) {
      for (int channel = 0; channel < job->channels; ++channel) {
        threads.emplace_back([job, index, channel] {
          HostTeam team(job->shown.aborted);
          run_message(team, *job, index, channel);
        });
      }
    }
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

void check_virtual(std::int64_t bytes, int channels, bool by_detour) {
  Place place;
  Bytes payload = pattern(bytes, 3), given = pattern(bytes, 4);
  Bytes got(payload.size(), std::byte{9}), zeros(payload.size(), std::byte{9});
  place.payload = {payload.data(), nullptr, nullptr, 1};
  const Payload came = place.payload;
  MessageJob job = place.job(3, channels);
  if (by_detour) {
    place.payload = {};
    job.shown.detours = &came;
  }
  job.items[0] = {.data = got.data(), .bytes = bytes, .sends = false, .fifo = nullptr, .payload = 0, .partner = 0,
                  .channels = channels};
  job.items[1] = {.data = zeros.data(), .bytes = bytes, .sends = false, .fifo = nullptr, .payload = -1, .partner = 1,
                  .channels = 1};
  job.items[2] = {.data = given.data(), .bytes = bytes, .sends = true, .fifo = nullptr, .payload = -1, .partner = 2,
                  .channels = channels};
  run({&job});
  const std::string what = std::to_string(bytes) + " bytes, channels " + std::to_string(channels) + (by_detour ? ", by a detour" : "");
  CHECK(got == payload, "from a virtual partner: " + what);
  CHECK(zeros == Bytes(payload.size()), "zeros: " + what);
  CHECK(place.moved[0] == 1 && place.moved[1] == bytes && place.moved[2] == 2 * bytes, "what was moved: " + what);
  CHECK(place.ended == 1 && place.posted > 0 && place.progress.number == 1, "its end: " + what);
}

void check_between(std::int64_t bytes, int channels) {
  Place from, to;
  const Zeros fifo(static_cast<std::size_t>(fifo_bytes(kMaxChannels)));
  auto* channel = reinterpret_cast<FifoChannel*>(fifo.data());
  for (int turn = 0; turn < 3; ++turn) {
    Bytes given = pattern(bytes, turn), got(given.size(), std::byte{9});
    MessageJob send = from.job(1, channels), receive = to.job(1, channels);
    send.items[0] = {.data = given.data(), .bytes = bytes, .sends = true, .fifo = channel, .payload = -1, .partner = 0,
                     .channels = channels};
    receive.items[0] = {.data = got.data(), .bytes = bytes, .sends = false, .fifo = channel, .payload = -1,
                        .partner = 0, .channels = channels};
    run({&receive, &send});
    CHECK(got == given, "between sandbox members: " + std::to_string(bytes) + " bytes");
  }
}

/// The second of two partners is waited for until its post and the costs of both are over.
void check_times() {
  Place place;
  const std::int64_t post = HostTeam(nullptr).now() + 2'000'000;
  std::vector<std::int64_t> words(static_cast<std::size_t>(kHeaderWords + entry_words(4)));
  words[0] = kReleasesMagic;
  words[1] = 1;
  words[2] = 4;
  std::int64_t* entry = words.data() + kHeaderWords;
  entry[0] = 1;
  entry[1] = 2;
  entry[2] = post;
  entry[3] = post - 1'000'000;
  place.times = {{0, 1'000'000, 1}, {1'000'000, 2'000'000, 2}};
  MessageJob job = place.job(1, 1);
  job.shown.releases = words.data();
  Bytes got(100);
  job.items[0] = {.data = got.data(), .bytes = 100, .sends = false, .fifo = nullptr, .payload = -1, .partner = 1,
                  .channels = 1};
  run({&job});
  CHECK(HostTeam(nullptr).now() >= post + 3'000'000, "a block came too early");
}

}  // namespace

void test_messages() {
  for (const std::int64_t bytes : {0, 1, 100, 300'001, 9'000'000}) {
    for (const int channels : {1, 3}) {
      check_virtual(bytes, channels, false);
      check_virtual(bytes, channels, true);
      check_between(bytes, channels);
    }
  }
  check_times();
}

}  // namespace pruned::device::testing
