#include "families.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "communicator.h"
#include "failure.h"
#include "handles.h"
#include "real.h"

namespace pruned::shim {
namespace {

constexpr char kSplit = 's';
constexpr char kShrink = 'x';
constexpr int kWhatever = -1;  // the size of a part, and the own rank there, are what the engine was told

/// FNV-1a, going on from `hash`.
std::uint64_t hashed(std::uint64_t hash, const void* data, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; ++at) {
    hash = (hash ^ static_cast<const unsigned char*>(data)[at]) * 0x100000001b3;
  }
  return hash;
}

/// An id that says what it is, and that nobody else has: it is made of all bytes of the parent's and of these numbers.
UniqueId child_of(const UniqueId& parent, char kind, std::span<const int> numbers) {
  UniqueId child{};
  std::uint64_t hash = hashed(hashed(0xcbf29ce484222325, parent.bytes, sizeof parent.bytes), &kind, 1);
  const int written = std::snprintf(child.bytes, 32, "prism %c ", kind);
  for (char* at = child.bytes + written; at + sizeof hash <= child.bytes + sizeof child.bytes; at += sizeof hash) {
    hash = hashed(hash, numbers.data(), numbers.size_bytes());
    std::memcpy(at, &hash, sizeof hash);
  }
  return child;
}

UniqueId split_id(const UniqueId& parent, int color) { return child_of(parent, kSplit, {&color, 1}); }

UniqueId shrink_id(const UniqueId& parent, std::span<const int> excluded) {
  std::vector<int> sorted(excluded.begin(), excluded.end());
  std::sort(sorted.begin(), sorted.end());
  return child_of(parent, kShrink, sorted);
}

Comm derived(const UniqueId& id, int size, int rank, const std::string& call) {
  std::uint8_t bytes[sizeof id.bytes];
  std::memcpy(bytes, id.bytes, sizeof bytes);
  device::Group* group = device::group_of(bytes, size, rank);
  if (group == nullptr) {
    throw Failure(kInvalidUsage, "which virtual members are in this part of " + call +
                                     " nobody has said: make the group with torch.distributed.new_group()");
  }
  return add_communicator(std::make_unique<Communicator>(id, *group));
}

/// The rank that a member has when the excluded ones are gone.
int rank_without(std::span<const int> excluded, int rank) {
  const auto lower = [rank](int each) { return each < rank; };
  return rank - static_cast<int>(std::count_if(excluded.begin(), excluded.end(), lower));
}

UniqueId id_of(const std::uint8_t* bytes) {
  UniqueId id;
  std::memcpy(id.bytes, bytes, sizeof id.bytes);
  return id;
}

}  // namespace
}  // namespace pruned::shim

using namespace pruned::shim;

/// Members are in the order that the engine was told: keys of virtual members are as little known as their colours.
SHIM_ENTRY Result ncclCommSplit(Comm comm, int color, int key, Comm* child, Config* config) {
  if (!is_ours(comm)) {
    return SHIM_PASS(ncclCommSplit, comm, color, key, child, config);
  }
  return guarded([&] {
    const UniqueId id = split_id(communicator(comm).id(), color);
    *child = color == kNoColor ? nullptr : derived(id, kWhatever, kWhatever, "ncclCommSplit()");
    return *child == nullptr ? kSuccess : made(config);
  });
}

SHIM_ENTRY Result ncclCommShrink(Comm comm, int* excluded, int count, Comm* child, Config* config, int flags) {
  if (!is_ours(comm)) {
    return SHIM_PASS(ncclCommShrink, comm, excluded, count, child, config, flags);
  }
  return guarded([&] {
    const Communicator& parent = communicator(comm);
    const std::span<const int> gone(excluded, static_cast<std::size_t>(count));
    *child = derived(shrink_id(parent.id(), gone), parent.size() - count, rank_without(gone, parent.rank()),
                     "ncclCommShrink()");
    return made(config);
  });
}

/// What members beyond the present ones there would be, no plan says.
SHIM_ENTRY Result ncclCommGrow(Comm comm, int size, const UniqueId* id, int rank, Comm* grown, Config* config) {
  if (!is_ours(comm)) {
    return SHIM_PASS(ncclCommGrow, comm, size, id, rank, grown, config);
  }
  return guarded([]() -> Result { throw Failure(kInvalidUsage, "an emulated communicator does not grow"); });
}

SHIM_ENTRY Result ncclCommGetUniqueId(Comm comm, UniqueId* id) {
  if (!is_ours(comm)) {
    return SHIM_PASS(ncclCommGetUniqueId, comm, id);
  }
  return guarded([]() -> Result { throw Failure(kInvalidUsage, "an emulated communicator does not grow"); });
}

extern "C" void prism_device_split_id(const std::uint8_t* parent, std::int32_t color, std::uint8_t* child) {
  std::memcpy(child, split_id(id_of(parent), color).bytes, sizeof(UniqueId));
}

extern "C" void prism_device_shrink_id(const std::uint8_t* parent, const std::int32_t* excluded, std::int32_t count,
                                       std::uint8_t* child) {
  const std::span<const int> gone(excluded, static_cast<std::size_t>(count));
  std::memcpy(child, shrink_id(id_of(parent), gone).bytes, sizeof(UniqueId));
}
