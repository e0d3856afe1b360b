#include "batch.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace pruned::shim {
namespace {

struct Batch {
  int depth = 0;
  std::vector<Call> calls;
};

thread_local Batch batch;

bool together(const Call& one, const Call& other) {
  return one.communicator == other.communicator && one.stream == other.stream;
}

void launch_collective(const Call& call) {
  device::Work work = call.work;
  if (call.scale) {
    work.scale = call.scale->place();
    work.scale_on_device = call.scale->device != nullptr;
  }
  call.communicator->launch(work, call.stream);
}

/// Messages that meet each other must not wait for each other, so they are one launch.
void launch_messages(const Call& first, std::vector<device::Message>& messages) {
  if (!messages.empty()) {
    first.communicator->launch(messages, first.stream);
    messages.clear();
  }
}

/// All calls on one communicator and stream, in their order.
void launch_all(const std::vector<Call>& calls) {
  std::vector<device::Message> messages;
  for (const Call& call : calls) {
    if (call.message) {
      messages.push_back(*call.message);
      continue;
    }
    launch_messages(call, messages);
    launch_collective(call);
  }
  launch_messages(calls.front(), messages);
}

void launch_groups(std::vector<Call> calls) {
  while (!calls.empty()) {
    const Call first = calls.front();
    const auto rest = std::stable_partition(calls.begin(), calls.end(),
                                            [&](const Call& call) { return together(call, first); });
    launch_all({calls.begin(), rest});
    calls.erase(calls.begin(), rest);
  }
}

}  // namespace

void begin_batch() noexcept { ++batch.depth; }

void end_batch() {
  if (batch.depth > 0 && --batch.depth == 0) {
    launch_groups(std::exchange(batch.calls, {}));
  }
}

void drop_batch() noexcept {
  if (batch.depth > 0 && --batch.depth == 0) {
    batch.calls.clear();
  }
}

void submit(const Call& call) {
  if (batch.depth > 0) {
    batch.calls.push_back(call);
  } else {
    launch_all({call});
  }
}

}  // namespace pruned::shim
