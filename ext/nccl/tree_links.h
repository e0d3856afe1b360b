// The FIFOs of one party along the edges of a tree. An edge is known by the member below it; it has one for each
// direction.

#pragma once

#include "ports.h"
#include "tree_shape.h"

namespace pruned {

/// What a slice on an edge is marked with. A *settled* one is a result already: nothing is added to it on its way up.
constexpr std::uint32_t tree_tag(std::int64_t chunk, bool settled) {
  return tag(Kind::kAllReduce, (chunk & 0x07FF'FFFF) | (settled ? 0x0800'0000 : 0));
}

/// The oldest slice, which is chunk `index`; throws Mismatch if it is anything else.
Slice tree_front(const Inlet& inlet, std::size_t bytes, std::int64_t index);
bool is_settled(const Slice& slice);

/// An edge, seen from its upper end.
struct LowerEdge {
  Inlet* up;
  Outlet* down;
};

/// An edge, seen from its lower end.
struct UpperEdge {
  Outlet* up;
  Inlet* down;
};

/// The edge above sandbox member or branch top `child`, whose upper end is the party `above`, as its lower end sees it.
UpperEdge upper_edge(Ports& ports, int tree, int child, Party above);
LowerEdge lower_edge(Ports& ports, int tree, int child, Party below);

}  // namespace pruned
