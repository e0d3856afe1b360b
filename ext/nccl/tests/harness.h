// What the tests of parties need: a directory for files, the far ends of a party's FIFOs, and turns without threads.

#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "../activity.h"
#include "../contribution.h"
#include "../pool.h"
#include "../ports.h"
#include "../ring_member.h"
#include "naive_ring.h"

namespace pruned::testing {

/// Small enough for several loops of little data.
constexpr Sizes kSmall{.chunk = 64, .slice = 16};

/// A new directory in memory, removed with all that is in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// A group: its sandbox, and everybody's inputs.
struct Group {
  std::shared_ptr<Directory> directory;
  std::string name = "group";
  int size = 1;
  std::vector<int> sandbox;
  Sizes sizes = kSmall;
  std::vector<int> nodes = {};

  Ports ports(Party::Role role, int rank) const { return Ports(directory, name, size, sandbox, {role, rank}); }
};

/// Feeds a party with what comes from its left, and takes what it sends to its right: the chunks, cut into slices.
class Neighbours {
 public:
  Neighbours(const Group& group, const Op& op, Party left, Party self, Party right);

  /// Runs the activity to its end with these chunks on its left; returns what it sent, in chunks of these sizes.
  std::vector<Bytes> run(Activity& activity, const std::vector<Bytes>& given, const std::vector<Bytes>& expected);

 private:
  bool feed(const std::vector<Bytes>& given);
  bool take(const std::vector<Bytes>& expected);

  Op op_;
  std::size_t slice_;
  Outlet left_;
  Inlet right_;
  std::size_t fed_chunks_ = 0, fed_bytes_ = 0;
  std::vector<Bytes> taken_;
  std::size_t taken_chunks_ = 0;
};

/// Gives all activities turns, in an order that changes, until all are done; false if none of them can move.
bool take_turns(std::vector<Activity*> activities, unsigned seed);

/// Sandboxes of 1 to 5 of `size` members: neighbours, scattered, and all of them if they are few.
std::vector<std::vector<int>> sandboxes(int size);

std::vector<Bytes> random_inputs(const Op& op, unsigned seed);

std::string describe(const Op& op, const std::vector<int>& sandbox);

}  // namespace pruned::testing
