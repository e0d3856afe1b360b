#include <bit>
#include <memory>

#include "bridge.h"
#include "guard.h"

struct pruned_bridge {
  std::unique_ptr<pruned::Bridge> bridge;
};

namespace {

using namespace pruned;

Party party(std::int32_t role, std::int32_t rank) { return {static_cast<Party::Role>(role), rank}; }

Link link_of(const pruned_link& link) {
  if (link.is_pipe != 0) {
    return pipe_link(link.name);
  }
  const Party from = party(link.from_role, link.from_rank), to = party(link.to_role, link.to_rank);
  return link.is_edge != 0 ? edge_link(link.name, from, to, link.tree, link.child, link.up != 0)
                           : group_link(link.name, from, to);
}

Cipher cipher_of(const pruned_seal& seal) {
  return {reinterpret_cast<Cipher::Encrypt*>(seal.encrypt), reinterpret_cast<Cipher::Decrypt*>(seal.decrypt)};
}

}  // namespace

pruned_bridge* pruned_open_bridge(const char* directory, const pruned_link* link, const pruned_seal* seal,
                                  std::int32_t socket, std::int32_t outwards) {
  std::unique_ptr<pruned_bridge> result;
  guarded([&] {
    auto files = std::make_shared<Directory>(directory);
    std::unique_ptr<Bridge> bridge;
    const Cipher cipher = cipher_of(*seal);
    const auto key = std::bit_cast<Key>(seal->key);
    if (outwards != 0) {
      bridge = std::make_unique<BridgeOut>(std::move(files), link_of(*link), socket, cipher, key);
    } else {
      bridge = std::make_unique<BridgeIn>(std::move(files), link_of(*link), socket, cipher, key);
    }
    result = std::make_unique<pruned_bridge>(pruned_bridge{std::move(bridge)});
    return PRUNED_DONE;
  });
  return result.release();
}

int pruned_turn_bridge(pruned_bridge* bridge) {
  return guarded([&] { return bridge->bridge->turn() ? PRUNED_DONE : PRUNED_PENDING; });
}

void pruned_close_bridge(pruned_bridge* bridge) { const std::unique_ptr<pruned_bridge> closed(bridge); }
