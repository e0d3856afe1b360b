#include "op.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

#include "arithmetic.h"

namespace pruned {
namespace {

bool has_root(Kind kind) {
  return kind == Kind::kBroadcast || kind == Kind::kReduce || kind == Kind::kGather || kind == Kind::kScatter;
}

void check_list(const std::vector<std::int64_t>& counts, int size, const char* name) {
  if (!counts.empty() && counts.size() != static_cast<std::size_t>(size)) {
    throw std::invalid_argument(std::string(name) + " has " + std::to_string(counts.size()) + " entries for " +
                                std::to_string(size) + " members");
  }
  if (std::ranges::any_of(counts, [](std::int64_t n) { return n < 0; })) {
    throw std::invalid_argument(std::string(name) + " has a negative entry");
  }
}

}  // namespace

Blocks::Blocks(std::span<const std::int64_t> counts) : starts_(counts.size() + 1, 0) {
  std::partial_sum(counts.begin(), counts.end(), starts_.begin() + 1);
}

Blocks::Blocks(int size, std::int64_t each) : starts_(size + 1) {
  for (int member = 0; member <= size; ++member) {
    starts_[member] = member * each;
  }
}

std::int64_t Blocks::longest() const {
  std::int64_t longest = 0;
  for (std::size_t member = 1; member < starts_.size(); ++member) {
    longest = std::max(longest, starts_[member] - starts_[member - 1]);
  }
  return longest;
}

Blocks Op::sent_blocks() const {
  return sends.empty() ? Blocks(size, kind == Kind::kScatter ? count : count / size) : Blocks(sends);
}

Blocks Op::received_blocks() const {
  return receives.empty() ? Blocks(size, kind == Kind::kAllToAll ? count / size : count) : Blocks(receives);
}

std::int64_t input_elements(const Op& op, int rank) {
  switch (op.kind) {
    case Kind::kBarrier:
      return 0;
    case Kind::kBroadcast:
      return rank == op.root ? op.count : 0;
    case Kind::kScatter:
      return rank == op.root ? op.sent_blocks().total() : 0;
    case Kind::kReduceScatter:
    case Kind::kAllToAll:
      return op.sent_blocks().total();
    case Kind::kAllGather:
    case Kind::kGather:
      return op.received_blocks()[rank].count();
    default:
      return op.count;
  }
}

std::int64_t output_elements(const Op& op, int rank) {
  switch (op.kind) {
    case Kind::kBarrier:
      return 0;
    case Kind::kReduce:
      return rank == op.root ? op.count : 0;
    case Kind::kBroadcast:
      return rank == op.root ? 0 : op.count;
    case Kind::kGather:
      return rank == op.root ? op.received_blocks().total() : 0;
    case Kind::kAllGather:
    case Kind::kAllToAll:
      return op.received_blocks().total();
    case Kind::kReduceScatter:
      return op.sent_blocks()[rank].count();
    default:
      return op.count;
  }
}

void validate(const Op& op) {
  if (op.size < 1 || op.count < 0) {
    throw std::invalid_argument("an operation needs members, and no negative count");
  }
  if (op.kind < Kind::kAllReduce || op.kind > Kind::kBarrier) {
    throw std::invalid_argument("no such collective: " + std::to_string(static_cast<int>(op.kind)));
  }
  if (op.tree && op.kind != Kind::kAllReduce) {
    throw std::invalid_argument("only an all_reduce runs along trees");
  }
  if (op.kind != Kind::kBarrier && op.item() == 0) {
    throw std::invalid_argument("a collective that moves data needs a dtype");
  }
  if (has_root(op.kind) && (op.root < 0 || op.root >= op.size)) {
    throw std::invalid_argument("root " + std::to_string(op.root) + " is none of the " + std::to_string(op.size) +
                                " members");
  }
  check_list(op.sends, op.size, "sends");
  check_list(op.receives, op.size, "receives");
  const bool even = op.sends.empty() && (op.kind == Kind::kReduceScatter || op.kind == Kind::kAllToAll);
  if (even && op.count % op.size != 0) {
    throw std::invalid_argument(std::to_string(op.count) + " elements do not divide among " + std::to_string(op.size) +
                                " members: give `sends`");
  }
  if (reduces(op.kind)) {
    arithmetic(op.dtype, op.reduce);
  }
}

}  // namespace pruned
