#include "api.h"

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "endpoint.h"
#include "errors.h"

struct pruned_handle {
  std::unique_ptr<pruned::Endpoint> endpoint;
};

namespace {

using namespace pruned;

thread_local std::string last_error;

int failure(int status, const std::exception& error) {
  last_error = error.what();
  return status;
}

/// Runs it and turns what it throws into a status: nothing of C++ crosses the interface.
int guarded(const std::function<int()>& body) noexcept {
  try {
    return body();
  } catch (const Aborted& error) {
    return failure(PRUNED_ABORTED, error);
  } catch (const PeerLost& error) {
    return failure(PRUNED_PEER_LOST, error);
  } catch (const Mismatch& error) {
    return failure(PRUNED_MISMATCH, error);
  } catch (const std::invalid_argument& error) {
    return failure(PRUNED_INVALID, error);
  } catch (const std::exception& error) {
    return failure(PRUNED_FAILED, error);
  }
}

Op op_of(const pruned_op& op) {
  const auto list = [&](bool there, const std::int64_t* counts) {
    return there ? std::vector(counts, counts + op.size) : std::vector<std::int64_t>{};
  };
  return {.kind = static_cast<Kind>(op.kind),
          .dtype = static_cast<Dtype>(op.dtype),
          .reduce = static_cast<Reduce>(op.reduce),
          .root = op.root,
          .size = op.size,
          .count = op.count,
          .sends = list(op.has_sends != 0, op.sends),
          .receives = list(op.has_receives != 0, op.receives)};
}

Membership membership_of(const pruned_membership& membership) {
  return {.directory = membership.directory,
          .group = membership.group,
          .size = membership.size,
          .sandbox = {membership.sandbox, membership.sandbox + membership.sandbox_size},
          .rank = membership.rank};
}

std::optional<Times> times_of(const pruned_pace* pace) {
  if (pace == nullptr) {
    return std::nullopt;
  }
  return Times{.posts = {pace->posts, pace->posts + pace->posts_size}, .latency = pace->latency, .transfer = pace->transfer};
}

Contribution contribution_of(const pruned_contribution& contribution) {
  return {.mode = static_cast<Mode>(contribution.mode),
          .head = static_cast<const std::byte*>(contribution.head),
          .tail = static_cast<const std::byte*>(contribution.tail),
          .final = static_cast<const std::byte*>(contribution.final)};
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

ArcPlan arc_plan(const pruned_op& op, const pruned_membership& membership) {
  const Membership members = membership_of(membership);
  const auto arc = arc_after(members.size, members.sandbox, members.rank);
  if (!arc.has_value()) {
    throw std::invalid_argument("there is no arc after member " + std::to_string(members.rank));
  }
  const Op converted = op_of(op);
  validate(converted);
  return ArcPlan(converted, Sizes{}, *arc);
}

}  // namespace

const char* pruned_error() { return last_error.c_str(); }

pruned_handle* pruned_open_member(const pruned_membership* membership, std::int32_t replicas) {
  return opened([&] { return std::make_unique<MemberEndpoint>(membership_of(*membership), replicas != 0); });
}

pruned_handle* pruned_open_arc(const pruned_membership* membership) {
  return opened([&] { return std::make_unique<ArcEndpoint>(membership_of(*membership)); });
}

pruned_handle* pruned_open_peers(const pruned_membership* membership) {
  return opened([&] { return std::make_unique<PeersEndpoint>(membership_of(*membership)); });
}

pruned_handle* pruned_open_pipe(const char* directory, const char* name) {
  return opened([&] { return std::make_unique<PipeEndpoint>(directory, name); });
}

void pruned_close(pruned_handle* handle) { const std::unique_ptr<pruned_handle> closed(handle); }

int pruned_start_member(pruned_handle* handle, const pruned_op* op, const void* input, void* output) {
  return guarded([&] {
    as<MemberEndpoint>(handle).start(op_of(*op), {static_cast<const std::byte*>(input), static_cast<std::byte*>(output)});
    return PRUNED_DONE;
  });
}

int pruned_start_arc(
    pruned_handle* handle, const pruned_op* op, const pruned_contribution* contribution, const pruned_pace* pace) {
  return guarded([&] {
    as<ArcEndpoint>(handle).start(op_of(*op), contribution_of(*contribution), times_of(pace));
    return PRUNED_DONE;
  });
}

int pruned_start_peers(pruned_handle* handle, const pruned_op* op, const void* data, const pruned_pace* pace) {
  return guarded([&] {
    as<PeersEndpoint>(handle).start(op_of(*op), static_cast<const std::byte*>(data), times_of(pace));
    return PRUNED_DONE;
  });
}

int pruned_start_send(
    pruned_handle* handle, const void* data, std::int64_t bytes, std::int64_t start, std::int64_t duration) {
  return guarded([&] {
    as<PipeEndpoint>(handle).send(static_cast<const std::byte*>(data), static_cast<std::size_t>(bytes), start, duration);
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

int pruned_abort(const char* directory) {
  return guarded([&] {
    Directory(directory).abort();
    return PRUNED_DONE;
  });
}

std::int64_t pruned_member_plan(const pruned_op* op, std::int32_t rank, pruned_member_step* steps) {
  std::int64_t count = -1;
  guarded([&] {
    const Op converted = op_of(*op);
    validate(converted);
    const MemberPlan plan(converted, Sizes{}, rank);
    for (std::int64_t i = 0; steps != nullptr && i < plan.steps(); ++i) {
      const MemberStep step = plan.step(i);
      steps[i] = {step.receive,  step.reduce,       step.store,      step.send,
                  step.complete, step.extent.first, step.extent.last};
    }
    count = plan.steps();
    return PRUNED_DONE;
  });
  return count;
}

std::int64_t pruned_arc_plan(const pruned_op* op, const pruned_membership* membership, pruned_arc_step* steps) {
  std::int64_t count = -1;
  guarded([&] {
    const ArcPlan plan = arc_plan(*op, *membership);
    for (std::int64_t i = 0; steps != nullptr && i < plan.sends(); ++i) {
      const ArcStep step = plan.step(i);
      steps[i] = {step.delayed, step.adders,       step.total,      step.complete,
                  step.owner,   step.extent.first, step.extent.last};
    }
    count = plan.sends();
    return PRUNED_DONE;
  });
  return count;
}

int pruned_release_times(
    const pruned_op* op, const pruned_membership* membership, const pruned_pace* pace, const std::int64_t* arrivals,
    std::int64_t arrivals_size, std::int64_t* times) {
  return guarded([&] {
    const ArcPlan plan = arc_plan(*op, *membership);
    Pace paced(plan, *times_of(pace));
    std::int64_t arrived = 0;
    for (std::int64_t send = 0; send < plan.sends(); ++send) {
      for (; !paced.known(send); ++arrived) {
        if (arrived == arrivals_size) {
          throw std::invalid_argument("there are too few arrivals for all sends");
        }
        paced.arrived(arrivals[arrived]);
      }
      times[send] = paced.release(send);
    }
    return PRUNED_DONE;
  });
}
