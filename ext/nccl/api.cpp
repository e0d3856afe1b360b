#include "api.h"

#include <concepts>
#include <memory>
#include <optional>

#include "clock.h"
#include "guard.h"

struct pruned_handle {
  std::unique_ptr<pruned::Endpoint> endpoint;
};

namespace {

using namespace pruned;

std::optional<Times> times_if_any(const pruned_pace* pace) {
  return pace == nullptr ? std::nullopt : std::optional(times_of(*pace));
}

Contribution contribution_of(const pruned_contribution& contribution) {
  return {.mode = static_cast<Mode>(contribution.mode),
          .head = static_cast<const std::byte*>(contribution.head),
          .tail = static_cast<const std::byte*>(contribution.tail),
          .final = static_cast<const std::byte*>(contribution.final),
          .branches = {
              static_cast<const std::byte*>(contribution.branches[0]),
              static_cast<const std::byte*>(contribution.branches[1]),
              static_cast<const std::byte*>(contribution.branches[2]),
              static_cast<const std::byte*>(contribution.branches[3]),
          }};
}

template <std::derived_from<Endpoint> E>
E& as(pruned_handle* handle) {
  return dynamic_cast<E&>(*handle->endpoint);
}

template <std::invocable Make>
pruned_handle* opened(Make make) {
  std::unique_ptr<pruned_handle> handle;
  guarded([&] {
    handle = std::make_unique<pruned_handle>(pruned_handle{make()});
    return PRUNED_DONE;
  });
  return handle.release();
}

}  // namespace

pruned_handle* pruned_open_member(const pruned_membership* membership, std::int32_t replicas) {
  return opened([&] { return std::make_unique<MemberEndpoint>(membership_of(*membership), replicas != 0); });
}

pruned_handle* pruned_open_arc(const pruned_membership* membership) {
  return opened([&] { return std::make_unique<ArcEndpoint>(membership_of(*membership)); });
}

pruned_handle* pruned_open_peers(const pruned_membership* membership) {
  return opened([&] { return std::make_unique<PeersEndpoint>(membership_of(*membership)); });
}

pruned_handle* pruned_open_branches(const pruned_membership* membership) {
  return opened([&] { return std::make_unique<BranchesEndpoint>(membership_of(*membership)); });
}

pruned_handle* pruned_open_pipe(const char* directory, const char* name) {
  return opened([&] { return std::make_unique<PipeEndpoint>(directory, name); });
}

void pruned_close(pruned_handle* handle) { const std::unique_ptr<pruned_handle> closed(handle); }

int pruned_start_member(pruned_handle* handle, const pruned_op* op, const void* input, void* output) {
  return guarded([&] {
    as<MemberEndpoint>(handle).start(op_of(*op),
                                     {static_cast<const std::byte*>(input), static_cast<std::byte*>(output)});
    return PRUNED_DONE;
  });
}

int pruned_start_arc(pruned_handle* handle, const pruned_op* op, const pruned_contribution* contribution,
                     const pruned_pace* pace) {
  return guarded([&] {
    as<ArcEndpoint>(handle).start(op_of(*op), contribution_of(*contribution), times_if_any(pace));
    return PRUNED_DONE;
  });
}

int pruned_start_branches(pruned_handle* handle, const pruned_op* op, const pruned_contribution* contribution,
                          const pruned_pace* pace) {
  return guarded([&] {
    as<BranchesEndpoint>(handle).start(op_of(*op), contribution_of(*contribution), times_if_any(pace));
    return PRUNED_DONE;
  });
}

int pruned_start_peers(pruned_handle* handle, const pruned_op* op, const void* data, const pruned_pace* pace) {
  return guarded([&] {
    as<PeersEndpoint>(handle).start(op_of(*op), static_cast<const std::byte*>(data), times_if_any(pace));
    return PRUNED_DONE;
  });
}

int pruned_start_send(pruned_handle* handle, const void* data, std::int64_t bytes, std::int64_t start,
                      std::int64_t duration) {
  return guarded([&] {
    as<PipeEndpoint>(handle).send(static_cast<const std::byte*>(data), static_cast<std::size_t>(bytes), start,
                                  duration);
    return PRUNED_DONE;
  });
}

int pruned_start_receive(pruned_handle* handle, void* data, std::int64_t bytes) {
  return guarded([&] {
    as<PipeEndpoint>(handle).receive(static_cast<std::byte*>(data), static_cast<std::size_t>(bytes));
    return PRUNED_DONE;
  });
}

int pruned_wait(pruned_handle* handle, pruned_moved* moved) {
  return guarded([&] {
    if (!handle->endpoint->wait()) {
      return PRUNED_PENDING;
    }
    const Moved& all = handle->endpoint->moved();
    *moved = {all.sends, all.receives, all.sent_bytes, all.received_bytes};
    return PRUNED_DONE;
  });
}

void pruned_set_clock(int64_t ahead, int64_t lead) {
  pruned::clock_ahead.store(ahead, std::memory_order_relaxed);
  pruned::clock_lead.store(lead, std::memory_order_relaxed);
}

int pruned_abort(const char* directory, const char* reason) {
  return guarded([&] {
    Directory(directory).abort(reason);
    return PRUNED_DONE;
  });
}

int pruned_check(const char* directory) {
  return guarded([&] {
    Directory(directory).check();
    return PRUNED_DONE;
  });
}
