#include "tree_member.h"

#include <algorithm>
#include <cstring>

#include "arithmetic.h"
#include "branch.h"

namespace pruned {
namespace {

bool all_can_send(const TreePlace& place) {
  return std::ranges::all_of(place.children, [](const LowerEdge& edge) { return edge.up->ready(); });
}

bool all_can_take(const TreePlace& place) {
  return std::ranges::all_of(place.children, [](const LowerEdge& edge) { return edge.down->ready(); });
}

/// A root hands down at once what has gone up.
bool can_go_up(const TreePlace& place) {
  return place.parent.has_value() ? place.parent->up->ready() : all_can_take(place);
}

}  // namespace

std::array<TreePlace, kTrees> places_of(const TreeShape& shape, Ports& ports) {
  const int self = ports.self().rank;
  std::array<TreePlace, kTrees> places;
  for (int tree = 0; tree < kTrees; ++tree) {
    const auto party = [&](int member) {
      return ports.in_sandbox(member) ? Party{Party::Role::kMember, member}
                                      : Party{Party::Role::kBranches, keeper(shape, ports.sandbox(), tree, member)};
    };
    if (const int parent = shape.parent(tree, self); parent >= 0) {
      places[tree].parent = upper_edge(ports, tree, self, party(parent));
    }
    for (const int child : shape.children(tree, self)) {
      places[tree].children.push_back(lower_edge(ports, tree, child, party(child)));
    }
  }
  return places;
}

TreeMember::TreeMember(const Op& op, Sizes sizes, const Buffers& buffers, const std::array<TreePlace, kTrees>& places)
    : cut_(op, sizes),
      size_(op.size),
      item_(op.item()),
      arithmetic_(arithmetic(op.dtype, op.reduce)),
      buffers_(buffers),
      places_(places) {
  if (arithmetic_.scale != nullptr) {
    scaled_.resize(kBlockBytes);
  }
}

bool TreeMember::advance() {
  bool moved = false;
  for (int tree = 0; tree < kTrees; ++tree) {
    moved = send_up(tree) || moved;
    moved = pass_down(tree) || moved;
  }
  return moved;
}

bool TreeMember::done() const {
  return down_[0] == cut_.chunks(0) && down_[1] == cut_.chunks(1) && up_[0] == down_[0] && up_[1] == down_[1];
}

void TreeMember::verify() const {
  for (int tree = 0; tree < kTrees; ++tree) {
    const TreePlace& place = places_[tree];
    if (up_[tree] < cut_.chunks(tree)) {
      std::ranges::for_each(place.children, [](const LowerEdge& edge) { edge.up->verify(); });
    }
    if (down_[tree] < cut_.chunks(tree)) {
      std::ranges::for_each(place.children, [](const LowerEdge& edge) { edge.down->verify(); });
    }
    if (place.parent.has_value() && up_[tree] < cut_.chunks(tree)) {
      place.parent->up->verify();
    }
    if (place.parent.has_value() && down_[tree] < cut_.chunks(tree)) {
      place.parent->down->verify();
    }
  }
}

// -- up --------------------------------------------------------------------------------------------------------------

bool TreeMember::send_up(int tree) {
  const TreePlace& place = places_[tree];
  const std::int64_t index = up_[tree];
  if (index == cut_.chunks(tree) || !all_can_send(place) || !can_go_up(place)) {
    return false;
  }
  const Extent chunk = cut_.chunk(tree, index);
  const std::size_t size = static_cast<std::size_t>(chunk.count()) * item_;
  ++up_[tree];
  if (place.parent.has_value()) {
    const bool settled = take_up(place, index, chunk, place.parent->up->slot().data());
    place.parent->up->publish(size, tree_tag(index, settled));
    count_sent(size);
    return true;
  }
  std::byte* out = buffers_.output + chunk.first * item_;
  if (!take_up(place, index, chunk, out) && arithmetic_.divide != nullptr) {
    arithmetic_.divide(out, static_cast<std::size_t>(chunk.count()), size_);
  }
  ++down_[tree];
  hand_down(place, index, out, size);
  return true;
}

/// What goes up, given what has come from all children; whether it is settled.
bool TreeMember::take_up(const TreePlace& place, std::int64_t index, const Extent& chunk, std::byte* out) {
  const std::size_t size = static_cast<std::size_t>(chunk.count()) * item_;
  const auto settled =
      std::ranges::find_if(place.children, [](const LowerEdge& edge) { return is_settled(edge.up->front()); });
  if (settled != place.children.end()) {
    std::memcpy(out, tree_front(*settled->up, size, index).data.data(), size);
  } else {
    reduce(place, index, chunk, out);
  }
  for (const LowerEdge& edge : place.children) {
    tree_front(*edge.up, size, index);  // the size of all is right, whoever was settled
    edge.up->release();
    count_received(size);
  }
  return settled != place.children.end();
}

/// The own input, then what each child has sent.
void TreeMember::reduce(const TreePlace& place, std::int64_t index, const Extent& chunk, std::byte* out) {
  const auto block = static_cast<std::int64_t>(kBlockBytes / item_);
  const std::size_t size = static_cast<std::size_t>(chunk.count()) * item_;
  for (std::int64_t first = chunk.first; first < chunk.last; first += block) {
    const Extent part{first, std::min(first + block, chunk.last)};
    const std::size_t at = static_cast<std::size_t>(first - chunk.first) * item_;
    const auto count = static_cast<std::size_t>(part.count());
    const std::byte* total = own(part);
    for (const LowerEdge& edge : place.children) {
      arithmetic_.combine(total, tree_front(*edge.up, size, index).data.data() + at, out + at, count);
      total = out + at;
    }
    if (total != out + at) {
      std::memcpy(out + at, total, count * item_);
    }
  }
}

/// The own input to this block, scaled if an average wants that.
const std::byte* TreeMember::own(const Extent& block) {
  const std::byte* data = buffers_.input + block.first * item_;
  if (scaled_.empty()) {
    return data;
  }
  arithmetic_.scale(data, scaled_.data(), static_cast<std::size_t>(block.count()), 1.0 / size_);
  return scaled_.data();
}

// -- down ------------------------------------------------------------------------------------------------------------

bool TreeMember::pass_down(int tree) {
  const TreePlace& place = places_[tree];
  const std::int64_t index = down_[tree];
  if (!place.parent.has_value() || index == cut_.chunks(tree) || !place.parent->down->ready() || !all_can_take(place)) {
    return false;
  }
  const Extent chunk = cut_.chunk(tree, index);
  const std::size_t size = static_cast<std::size_t>(chunk.count()) * item_;
  std::byte* out = buffers_.output + chunk.first * item_;
  std::memcpy(out, tree_front(*place.parent->down, size, index).data.data(), size);
  place.parent->down->release();
  count_received(size);
  ++down_[tree];
  hand_down(place, index, out, size);
  return true;
}

void TreeMember::hand_down(const TreePlace& place, std::int64_t index, const std::byte* value, std::size_t size) {
  for (const LowerEdge& edge : place.children) {
    std::memcpy(edge.down->slot().data(), value, size);
    edge.down->publish(size, tree_tag(index, false));
    count_sent(size);
  }
}

void TreeMember::count_sent(std::size_t size) {
  ++moved_.sends;
  moved_.sent_bytes += static_cast<std::int64_t>(size);
}

void TreeMember::count_received(std::size_t size) {
  ++moved_.receives;
  moved_.received_bytes += static_cast<std::int64_t>(size);
}

}  // namespace pruned
