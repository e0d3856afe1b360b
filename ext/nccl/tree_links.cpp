#include "tree_links.h"

namespace pruned {

Slice tree_front(const Inlet& inlet, std::size_t bytes, std::int64_t index) {
  const bool settled = is_settled(inlet.front());
  return inlet.front(bytes, tree_tag(index, settled));
}

bool is_settled(const Slice& slice) { return (slice.tag & 0x0800'0000U) != 0; }

UpperEdge upper_edge(Ports& ports, int tree, int child, Party above) {
  const std::string& group = ports.group();
  return {.up = &ports.outlet(tree_fifo_name(group, tree, child, true), above),
          .down = &ports.inlet(tree_fifo_name(group, tree, child, false), above)};
}

LowerEdge lower_edge(Ports& ports, int tree, int child, Party below) {
  const std::string& group = ports.group();
  return {.up = &ports.inlet(tree_fifo_name(group, tree, child, true), below),
          .down = &ports.outlet(tree_fifo_name(group, tree, child, false), below)};
}

}  // namespace pruned
