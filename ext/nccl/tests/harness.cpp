#include "harness.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "check.h"

namespace pruned::testing {

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = "/dev/shm/pruned-test-XXXXXX";
  path_ = mkdtemp(pattern.data());
}

TemporaryDirectory::~TemporaryDirectory() { std::filesystem::remove_all(path_); }

Neighbours::Neighbours(const Group& group, const Op& op, Party left, Party self, Party right)
    : op_(op),
      slice_(static_cast<std::size_t>(slice_elements(op, group.sizes)) * op.item()),
      left_(*group.directory, fifo_name(group.name, left, self),
            std::make_shared<Bell>(*group.directory, bell_name(group.name, self))),
      right_(*group.directory, fifo_name(group.name, self, right),
             std::make_shared<Bell>(*group.directory, bell_name(group.name, self))) {}

std::vector<Bytes> Neighbours::run(Activity& activity, const std::vector<Bytes>& given,
                                   const std::vector<Bytes>& expected) {
  taken_.assign(1, {});
  bool moved = true;
  while (moved) {
    moved = feed(given);
    moved = (!activity.done() && activity.advance()) || moved;
    moved = take(expected) || moved;
  }
  CHECK(activity.done(), "it stopped before its end");
  CHECK(fed_chunks_ == given.size(), "it did not take in all that came");
  taken_.pop_back();
  return taken_;
}

bool Neighbours::feed(const std::vector<Bytes>& given) {
  if (fed_chunks_ == given.size() || !left_.ready()) {
    return false;
  }
  const Bytes& chunk = given[fed_chunks_];
  const std::size_t size = std::min(slice_, chunk.size() - fed_bytes_);
  std::copy_n(chunk.begin() + static_cast<std::ptrdiff_t>(fed_bytes_), size, left_.slot().begin());
  left_.publish(size, tag(op_.kind, static_cast<std::int64_t>(fed_chunks_)));
  fed_bytes_ += size;
  if (fed_bytes_ == chunk.size()) {
    ++fed_chunks_;
    fed_bytes_ = 0;
  }
  return true;
}

bool Neighbours::take(const std::vector<Bytes>& expected) {
  if (!right_.ready() || taken_chunks_ == expected.size()) {
    return false;
  }
  const std::size_t left = expected[taken_chunks_].size() - taken_.back().size();
  const Slice slice = right_.front(std::min(slice_, left), tag(op_.kind, static_cast<std::int64_t>(taken_chunks_)));
  taken_.back().insert(taken_.back().end(), slice.data.begin(), slice.data.end());
  right_.release();
  if (taken_.back().size() == expected[taken_chunks_].size()) {
    ++taken_chunks_;
    taken_.emplace_back();
  }
  return true;
}

bool take_turns(std::vector<Activity*> activities, unsigned seed) {
  std::mt19937 random(seed);
  while (true) {
    std::ranges::shuffle(activities, random);
    bool moved = false;
    for (Activity* activity : activities) {
      moved = (!activity->done() && activity->advance()) || moved;
    }
    if (std::ranges::all_of(activities, &Activity::done)) {
      return true;
    }
    if (!moved) {
      return false;
    }
  }
}

std::vector<std::vector<int>> sandboxes(int size) {
  std::vector<std::vector<int>> all{{0}};
  const auto add = [&](std::vector<int> sandbox) {
    std::ranges::sort(sandbox);
    const bool fits =
        sandbox.front() >= 0 && sandbox.back() < size && std::ranges::adjacent_find(sandbox) == sandbox.end();
    if (fits && std::ranges::find(all, sandbox) == all.end()) {
      all.push_back(sandbox);
    }
  };
  add({size - 1});
  add({size / 2});
  add({0, 1});
  add({0, size - 1});
  add({1, size / 2 + 1});
  add({1, 2, 3});
  add({0, size / 3, 2 * size / 3});
  add({0, 1, size / 2, size - 1});
  add({0, 2, 4, 6, 8});
  if (size <= 5) {
    std::vector<int> everybody(size);
    for (int r = 0; r < size; ++r) {
      everybody[r] = r;
    }
    add(everybody);
  }
  return all;
}

std::vector<Bytes> random_inputs(const Op& op, unsigned seed) {
  std::vector<Bytes> inputs;
  for (int r = 0; r < op.size; ++r) {
    inputs.push_back(
        random_values(op.dtype, op.kind == Kind::kBroadcast ? op.count : input_elements(op, r), seed * 1000 + r));
  }
  return inputs;
}

std::string describe(const Op& op, const std::vector<int>& sandbox) {
  std::string text = "kind " + std::to_string(static_cast<int>(op.kind)) + ", dtype " +
                     std::to_string(static_cast<int>(op.dtype)) + ", reduce " +
                     std::to_string(static_cast<int>(op.reduce)) + ", root " + std::to_string(op.root) + ", N " +
                     std::to_string(op.size) + ", count " + std::to_string(op.count) + ", sandbox";
  for (const int member : sandbox) {
    text += " " + std::to_string(member);
  }
  return text;
}

}  // namespace pruned::testing
