// Communicators begin here: what an id means, the engine knows, and of whom it knows nothing is the real library's.

#include <cstring>
#include <memory>
#include <span>

#include "communicator.h"
#include "failure.h"
#include "handles.h"
#include "real.h"

namespace pruned::shim {
namespace {

/// The communicator that one of these ids stands for; null if none does.
std::unique_ptr<Communicator> found(std::span<const UniqueId> ids, int size, int rank) {
  for (const UniqueId& id : ids) {
    std::uint8_t bytes[sizeof id.bytes];
    std::memcpy(bytes, id.bytes, sizeof bytes);
    if (device::Group* group = device::group_of(bytes, size, rank)) {
      return std::make_unique<Communicator>(id, *group);
    }
  }
  return nullptr;
}

/// `real` runs where no id is one of ours.
template <typename Real>
Result initialise(Comm* comm, std::span<const UniqueId> ids, int size, int rank, const Config* config, Real real) {
  if (!device::active()) {
    return real();
  }
  return guarded([&] {
    auto ours = found(ids, size, rank);
    if (ours == nullptr) {
      return real();
    }
    *comm = add_communicator(std::move(ours));
    return made(config);
  });
}

}  // namespace
}  // namespace pruned::shim

using namespace pruned::shim;

/// The real library's, for emulated communicators too: who asks has not said yet what it is for.
SHIM_ENTRY Result ncclGetUniqueId(UniqueId* id) { return SHIM_PASS(ncclGetUniqueId, id); }

SHIM_ENTRY Result ncclCommInitRank(Comm* comm, int size, UniqueId id, int rank) {
  return initialise(comm, {&id, 1}, size, rank, nullptr,
                    [&] { return SHIM_PASS(ncclCommInitRank, comm, size, id, rank); });
}

SHIM_ENTRY Result ncclCommInitRankConfig(Comm* comm, int size, UniqueId id, int rank, Config* config) {
  return initialise(comm, {&id, 1}, size, rank, config,
                    [&] { return SHIM_PASS(ncclCommInitRankConfig, comm, size, id, rank, config); });
}

SHIM_ENTRY Result ncclCommInitRankScalable(Comm* comm, int size, int rank, int count, UniqueId* ids, Config* config) {
  return initialise(comm, {ids, static_cast<std::size_t>(count)}, size, rank, config,
                    [&] { return SHIM_PASS(ncclCommInitRankScalable, comm, size, rank, count, ids, config); });
}

/// All members in one process: none of them can be virtual.
SHIM_ENTRY Result ncclCommInitAll(Comm* comms, int count, const int* devices) {
  return SHIM_PASS(ncclCommInitAll, comms, count, devices);
}
