#include "guard.h"

#include <stdexcept>
#include <string>
#include <vector>

#include "errors.h"

namespace {

thread_local std::string last_error;

int failure(int status, const std::exception& error) {
  last_error = error.what();
  return status;
}

}  // namespace

namespace pruned {

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
          .tree = op.tree != 0,
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
          .nodes = membership.nodes == nullptr
                       ? std::vector<int>{}
                       : std::vector<int>(membership.nodes, membership.nodes + membership.size),
          .rank = membership.rank};
}

Times times_of(const pruned_pace& pace) {
  return {.posts = {pace.posts, pace.posts + pace.posts_size}, .latency = pace.latency, .transfer = pace.transfer};
}

}  // namespace pruned

const char* pruned_error() { return last_error.c_str(); }
