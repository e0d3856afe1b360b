// Whole groups, taking turns in random order: nobody waits for ever, FIFOs are used again from operation to operation,
// and all results are right.

#include "../message.h"
#include "../replicas.h"
#include "cast.h"
#include "check.h"
#include "tests.h"

namespace pruned::testing {
namespace {

void run_ops(const Group& group, const std::vector<Op>& ops) {
  const auto cast = cast_of(group);
  unsigned seed = 1;
  for (const Op& op : ops) {
    Scene scene(group, op, seed);
    std::vector<std::unique_ptr<Activity>> activities;
    std::vector<Activity*> all;
    for (const auto& actor : cast) {
      if (auto activity = actor->act(scene)) {
        all.push_back(activity.get());
        activities.push_back(std::move(activity));
      }
    }
    CHECK(take_turns(all, seed++), describe(op, group.sandbox) + ": nobody can move");
    scene.check_outputs(group);
  }
}

void check_groups() {
  for (int size = 1; size <= 16; ++size) {
    for (const std::vector<int>& sandbox : sandboxes(size)) {
      const TemporaryDirectory directory;
      const Group group{.directory = std::make_shared<Directory>(directory.path()), .size = size, .sandbox = sandbox};
      run_ops(group, all_kinds(size, 3 + size % 4 * 19, Dtype::kFloat32));
      run_ops(group, all_kinds(size, 0, Dtype::kInt8));
    }
  }
}

/// Far more members than slots: an arc must take in what it cannot yet send on.
void check_many_members() {
  for (const std::vector<int>& sandbox : {std::vector{5}, std::vector{0, 1, 150}}) {
    const TemporaryDirectory directory;
    const Group group{.directory = std::make_shared<Directory>(directory.path()), .size = 200, .sandbox = sandbox};
    const Op op{
        .kind = Kind::kAllReduce, .dtype = Dtype::kInt32, .reduce = Reduce::kSum, .size = 200, .count = 16 * 200 + 9};
    run_ops(group, {op});
  }
}

/// Messages larger than the whole FIFO, with their own size of slices.
void check_large_exchanges() {
  const TemporaryDirectory directory;
  const Group group{
      .directory = std::make_shared<Directory>(directory.path()), .size = 4, .sandbox = {0, 1, 3}, .sizes = {}};
  Op op{.kind = Kind::kAllToAll, .dtype = Dtype::kInt32, .size = 4, .count = 4 * (5 << 18) + 4};
  run_ops(group, {op});
}

void check_replicated_inputs() {
  const TemporaryDirectory files;
  Directory directory(files.path());
  const auto bell = std::make_shared<Bell>(directory, "bell");
  Outlet told(directory, "told", bell);
  Inlet heard(directory, "told", bell);
  // The next input is not written before the arc is done with the last one.
  const auto file = directory.open("input", 4);
  const Bytes first(4, std::byte{1}), second(4, std::byte{2});
  Outlet away(directory, "away", bell);
  Inlet there(directory, "away", bell);
  const auto message = [&] { return std::make_unique<MessageSend>(nullptr, 0, 0, 0, away); };
  const auto reading = [&] { return std::make_unique<MessageReceive>(nullptr, 0, there); };
  PublishingMember one(first.data(), 4, file, told, message), two(second.data(), 4, file, told, message);
  CHECK(take_turns({&one}, 1), "the first input is published at once");
  CHECK(!two.advance() && file->data()[0] == std::byte{1}, "the second waits for the arc");
  ReplicatingArc arc(heard, reading);
  CHECK(take_turns({&arc, &two}, 1) && file->data()[0] == std::byte{2}, "which is done with the first");
}

}  // namespace

void test_groups() {
  check_groups();
  check_many_members();
  check_large_exchanges();
  check_replicated_inputs();
}

}  // namespace pruned::testing
