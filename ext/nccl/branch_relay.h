// A branch of virtual members in an all_reduce along two trees.
//
// It takes in whatever has come before it sends, so that nobody waits here for who is many hops away. What comes from
// below becomes its sum, which goes up, or, if the root is in it, is the result, which goes down; otherwise the result
// comes from above.

#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "activity.h"
#include "branch.h"
#include "branch_sum.h"
#include "contribution.h"
#include "pool.h"
#include "tree_cut.h"
#include "tree_links.h"
#include "tree_pace.h"

namespace pruned {

/// What all branches of an operation have in common.
struct TreeOp {
  const Op& op;
  const TreeShape& shape;
  TreeCut cut;
  Contribution contribution;
  const Times* times;  // null: as fast as it goes; the posts of all members of the group
  const std::byte* replica;  // the published input, for replicas
};

class BranchRelay {
 public:
  /// `branch`, `ports` and `pool` outlive it; what `all` points to only has to be there while it is made.
  BranchRelay(const Branch& branch, const TreeOp& all, Ports& ports, Pool& pool);

  bool advance();
  bool done() const;
  std::int64_t due() const { return due_; }
  void verify() const;
  const Moved& moved() const { return moved_; }

 private:
  /// What comes in on an edge.
  struct In {
    Inlet* inlet;
    int from;  // which of those below; or kAbove
    std::deque<Piece> pieces = {};
    std::int64_t received = 0;
  };
  /// What goes out on an edge.
  struct Out {
    Outlet* outlet;
    std::int64_t hops;  // from where its pieces are to who gets them
    bool results;       // not sums
    std::int64_t sent = 0;
  };

  void connect(Ports& ports);
  bool receive(In& in);
  bool add_up();
  bool send(Out& out);
  void drop();
  bool is_root() const { return branch_.above < 0; }
  std::deque<Piece>& queue(bool results) { return results && !is_root() ? above_->pieces : sums_; }
  std::int64_t& dropped(bool results) { return results && !is_root() ? dropped_results_ : dropped_sums_; }
  std::size_t bytes(const Extent& chunk) const { return static_cast<std::size_t>(chunk.count()) * item_; }

  const Branch& branch_;
  TreeCut cut_;
  std::size_t item_;
  std::size_t chunk_bytes_;
  Pool& pool_;
  BranchSum sum_;
  std::optional<BranchPace> pace_;

  std::deque<In> below_;
  std::optional<In> above_;
  std::vector<Out> outs_;
  std::deque<Piece> sums_;
  std::int64_t summed_ = 0;
  std::int64_t dropped_sums_ = 0;
  std::int64_t dropped_results_ = 0;
  std::int64_t due_ = kNever;
  Moved moved_;
};

}  // namespace pruned
