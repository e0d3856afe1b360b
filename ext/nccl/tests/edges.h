// The edges of one party of the trees, played by hand: what it gets, and what it is held to.

#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cast.h"
#include "check.h"

namespace pruned::testing {

/// The far ends of all edges of a party: what comes in on them, and what has to go out.
class Edges {
 public:
  explicit Edges(const Group& group) : group_(group) {}

  void feed(int tree, int child, bool up, const std::vector<Bytes>& chunks) {
    feeds_.push_back({Outlet(*group_.directory, name(tree, child, up), bell()), chunks});
  }

  /// `settled`: all that comes is marked so.
  void take(int tree, int child, bool up, const std::vector<Bytes>& chunks, bool settled = false) {
    takes_.push_back({Inlet(*group_.directory, name(tree, child, up), bell()), chunks, settled});
  }

  void run(Activity& activity, const std::string& what) {
    for (bool moved = true; moved;) {
      moved = !activity.done() && activity.advance();
      for (Feed& feed : feeds_) {
        moved = give(feed) || moved;
      }
      for (Take& take : takes_) {
        moved = get(take, what) || moved;
      }
    }
    CHECK(activity.done(), what + ": it stopped before its end");
    for (const Feed& feed : feeds_) {
      CHECK(feed.at == feed.chunks.size() && feed.outlet.empty(), what + ": it did not take in all that came");
    }
    for (const Take& take : takes_) {
      CHECK(take.at == take.chunks.size(), what + ": it did not send all");
    }
  }

 private:
  struct Feed {
    Outlet outlet;
    std::vector<Bytes> chunks;
    std::size_t at = 0;
  };
  struct Take {
    Inlet inlet;
    std::vector<Bytes> chunks;
    bool settled;
    std::size_t at = 0;
  };

  std::string name(int tree, int child, bool up) const { return tree_fifo_name(group_.name, tree, child, up); }
  std::shared_ptr<Bell> bell() const { return std::make_shared<Bell>(*group_.directory, "bell"); }

  static bool give(Feed& feed) {
    if (feed.at == feed.chunks.size() || !feed.outlet.ready()) {
      return false;
    }
    const Bytes& chunk = feed.chunks[feed.at];
    std::ranges::copy(chunk, feed.outlet.slot().begin());
    feed.outlet.publish(chunk.size(), tree_tag(static_cast<std::int64_t>(feed.at), false));
    ++feed.at;
    return true;
  }

  static bool get(Take& take, const std::string& what) {
    if (!take.inlet.ready() || take.at == take.chunks.size()) {
      return false;
    }
    const Bytes& chunk = take.chunks[take.at];
    const Slice slice = tree_front(take.inlet, chunk.size(), static_cast<std::int64_t>(take.at));
    CHECK(std::ranges::equal(slice.data, chunk) && is_settled(slice) == take.settled, what + ": chunks");
    take.inlet.release();
    ++take.at;
    return true;
  }

  const Group& group_;
  std::vector<Feed> feeds_;
  std::vector<Take> takes_;
};

}  // namespace pruned::testing
