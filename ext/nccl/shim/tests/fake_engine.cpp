// An engine that does nothing but tell the test program what it is asked.

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "../../cuda/engine.h"

extern "C" void test_told(const char* line);  // the test program's

namespace {

using namespace pruned;
using namespace pruned::device;

Verdict next = Verdict::kFine;
bool running = false;

struct Known {
  std::array<std::uint8_t, 128> id;
  int size;
  int rank;
};
std::vector<Known> known;

template <typename... Values>
Verdict tell(const char* format, Values... values) {
  char line[300];
  std::snprintf(line, sizeof line, format, values...);
  test_told(line);
  return next;
}

class Fake final : public Group {
 public:
  explicit Fake(const Known& what) : what_(what) {}

  int size() const override { return what_.size; }
  int rank() const override { return what_.rank; }
  int device() const override { return 3; }

  Verdict launch(const Work& work, CUstream_st* stream) override {
    float scale = 0;
    if (work.scale != nullptr && !work.scale_on_device) {
      std::memcpy(&scale, work.scale, sizeof scale);
    }
    return tell("engine %d kind %d dtype %d reduce %d root %d count %ld %ld>%ld scale %g%s stream %ld", what_.id[0],
                static_cast<int>(work.kind), static_cast<int>(work.dtype), static_cast<int>(work.reduce), work.root,
                static_cast<long>(work.count), reinterpret_cast<long>(work.input), reinterpret_cast<long>(work.output),
                static_cast<double>(scale), work.scale_on_device ? " on device" : "", reinterpret_cast<long>(stream));
  }

  Verdict launch(std::span<const Message> messages, CUstream_st* stream) override {
    std::string all;
    for (const Message& each : messages) {
      all += (each.sends ? " to " : " from ") + std::to_string(each.peer) + ":" +
             std::to_string(reinterpret_cast<long>(each.data)) + "+" + std::to_string(each.bytes);
    }
    return tell("engine %d messages%s stream %ld", what_.id[0], all.c_str(), reinterpret_cast<long>(stream));
  }

  Verdict error() const override { return next; }
  std::string text() const override { return next == Verdict::kFine ? "" : "the engine's text"; }
  void abort() override { tell("engine %d abort", what_.id[0]); }
  void close() override {
    tell("engine %d close", what_.id[0]);
    delete this;
  }

 private:
  Known what_;
};

}  // namespace

namespace pruned::device {

bool active() { return running; }

Group* group_of(const std::uint8_t (&id)[128], int size, int rank) {
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const Known& each) { return std::memcmp(each.id.data(), id, 128) == 0; });
  if (found == known.end()) {
    return nullptr;
  }
  if (size >= 0 && (size != found->size || rank != found->rank)) {
    throw std::runtime_error("this id was said to mean another communicator");
  }
  return new Fake(*found);
}

}  // namespace pruned::device

#define FOR_TESTS extern "C" __attribute__((visibility("default")))

FOR_TESTS void fake_engine_runs(bool runs) { running = runs; }
FOR_TESTS void fake_engine_answers(int verdict) { next = static_cast<Verdict>(verdict); }
FOR_TESTS void fake_engine_knows(const std::uint8_t* id, int size, int rank) {
  Known each{{}, size, rank};
  std::copy(id, id + 128, each.id.begin());
  known.push_back(each);
}
