// Messages of a process group: what a group call holds is found among what was planned.

#include <algorithm>

#include "message_parts.h"
#include "process_group.h"

namespace pruned::device {
namespace {

constexpr std::int64_t kBytesOfChannel = 128 * 1024;  // of a message, for each CTA

int message_channels(std::int64_t bytes) {
  return static_cast<int>(std::clamp<std::int64_t>(bytes / kBytesOfChannel, 1, kMessageChannels));
}

std::string describe(const Message& message) {
  return std::string(message.sends ? "a send to" : "a receive from") + " member " + std::to_string(message.peer) +
         " of " + std::to_string(message.bytes) + " bytes";
}

}  // namespace

DeviceMemory ProcessGroup::times_of(const PlannedOp& op) const {
  std::vector<PartnerTime> times(op.partners.size(), PartnerTime{0, op.planned.latency + op.planned.transfer, -1});
  if (op.planned.kind != kSendReceive) {
    spread_times(op, times);
  }
  DeviceMemory memory = device_memory(static_cast<std::int64_t>(times.size() * sizeof(PartnerTime)));
  if (!times.empty()) {
    PRUNED_CUDA(cudaMemcpy(memory.get(), times.data(), times.size() * sizeof(PartnerTime), cudaMemcpyDefault));
  }
  return memory;
}

/// ../pair_pace.h's rule: one block after the other, by the steps at which members meet.
void ProcessGroup::spread_times(const PlannedOp& op, std::vector<PartnerTime>& times) const {
  std::vector<int> incoming;
  std::int64_t total = 0;
  for (int p = 0; p < static_cast<int>(op.partners.size()); ++p) {
    if (!op.partners[p].sends && op.partners[p].peer != rank_) {
      incoming.push_back(p);
      total += op.partners[p].bytes;
    }
  }
  const auto meeting = [&](int p) { return wrapped(rank_ - op.partners[p].peer, size_); };
  std::ranges::sort(incoming, {}, meeting);
  std::int64_t passed = 0, cost = 0;
  for (const int p : incoming) {
    const std::int64_t step = meeting(p), steps = size_ - 1;
    passed += op.partners[p].bytes;
    const double part = static_cast<Kind>(op.planned.kind) == Kind::kScatter
                            ? static_cast<double>(step) / static_cast<double>(steps)
                        : total == 0 ? 0.0
                                     : static_cast<double>(passed) / static_cast<double>(total);
    const std::int64_t before = cost;
    cost = op.planned.latency * step / steps +
           static_cast<std::int64_t>(static_cast<double>(op.planned.transfer) * part);
    const bool sandbox = std::ranges::binary_search(sandbox_, op.partners[p].peer);
    times[p] = {before, cost - before, sandbox ? -1 : static_cast<std::int32_t>(step)};
  }
}

Verdict ProcessGroup::launch(std::span<const Message> messages, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  if (const Verdict before = state(); before != Verdict::kFine) {
    return before;
  }
  std::vector<bool> taken(messages.size());
  copy_own(messages, taken, stream);
  while (std::ranges::find(taken, false) != taken.end()) {
    const std::string done = describe(messages[std::ranges::find(taken, false) - taken.begin()]);
    if (replayed_ || is_captured(stream)) {
      return refuse_captured(done);
    }
    if (next_ >= static_cast<std::int64_t>(ops_.size()) ||
        !is_exchange(ops_[static_cast<std::size_t>(next_)].planned.kind)) {
      return mismatch(next_, done);
    }
    const PlannedOp& op = ops_[static_cast<std::size_t>(next_)];
    const std::optional<std::vector<Found>> all = found(op, messages, taken);
    if (!all.has_value()) {
      return mismatch(next_, done);
    }
    order_.begin(stream);
    launch_found(next_++, *all, stream);
    order_.end(stream);
  }
  return Verdict::kFine;
}

/// Which operation messages are the host says, who does not know it where graphs are launched again.
Verdict ProcessGroup::refuse_captured(const std::string& done) {
  around_.trouble->report({.kind = Verdict::kMismatch,
                           .group = name_,
                           .number = next_,
                           .text = "the program does " + done +
                                   " in a CUDA graph, or in a group with collectives in one, which is not emulated "
                                   "yet: run it without CUDA graphs"});
  return Verdict::kMismatch;
}

/// Messages to itself are copies: the n-th send goes to the n-th receive.
void ProcessGroup::copy_own(std::span<const Message> messages, std::vector<bool>& taken, cudaStream_t stream) const {
  std::vector<const Message*> sends, receives;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].peer == rank_) {
      (messages[i].sends ? sends : receives).push_back(&messages[i]);
      taken[i] = true;
    }
  }
  for (std::size_t i = 0; i < std::min(sends.size(), receives.size()); ++i) {
    if (sends[i]->data != receives[i]->data && sends[i]->bytes > 0) {
      PRUNED_CUDA(cudaMemcpyAsync(receives[i]->data, sends[i]->data, static_cast<std::size_t>(sends[i]->bytes),
                                  cudaMemcpyDefault, stream));
    }
  }
}

/// The messages of this operation among those of the call; nothing if one of its partners has none.
std::optional<std::vector<ProcessGroup::Found>> ProcessGroup::found(const PlannedOp& op,
                                                                    std::span<const Message> messages,
                                                                    std::vector<bool>& taken) const {
  std::vector<Found> all;
  for (int p = 0; p < static_cast<int>(op.partners.size()); ++p) {
    const Partner& partner = op.partners[p];
    std::size_t i = 0;
    while (i < messages.size() && (taken[i] || messages[i].peer != partner.peer ||
                                   messages[i].sends != partner.sends || messages[i].bytes != partner.bytes)) {
      ++i;
    }
    if (i < messages.size()) {
      taken[i] = true;
      all.push_back({&messages[i], p});
    } else if (partner.bytes > 0 && partner.peer != rank_) {
      return std::nullopt;
    }
  }
  return all;
}

MessageItem ProcessGroup::item(std::int64_t number, const Found& found) {
  const Message& message = *found.message;
  const std::int64_t payload = exchanges_[static_cast<std::size_t>(number)].offsets[found.partner];
  MessageItem item{.data = static_cast<std::byte*>(message.data),
                   .bytes = message.bytes,
                   .sends = message.sends,
                   .fifo = nullptr,
                   .payload = payload,
                   .partner = found.partner,
                   .channels = message_channels(message.bytes)};
  if (message.sends && to_peers_.contains(message.peer)) {
    item.fifo = reinterpret_cast<FifoChannel*>(to_peers_.at(message.peer));
  } else if (!message.sends && from_peers_.contains(message.peer)) {
    item.fifo = reinterpret_cast<FifoChannel*>(from_peers_.at(message.peer).get());
  }
  return item;
}

/// In the order in which members meet, as others launch theirs: some at a time, if they are many.
void ProcessGroup::launch_found(std::int64_t number, std::span<const Found> found, cudaStream_t stream) {
  std::vector<Found> ordered(found.begin(), found.end());
  std::ranges::stable_sort(ordered, {}, [&](const Found& one) {
    const int peer = one.message->peer;
    return one.message->sends ? wrapped(peer - rank_, size_) : wrapped(rank_ - peer, size_);
  });
  MessageJob job = message_job(number);
  for (std::size_t done = 0; done < ordered.size(); done += static_cast<std::size_t>(job.count)) {
    job.count = static_cast<int>(std::min<std::size_t>(kMaxMessages, ordered.size() - done));
    job.channels = 1;
    for (int i = 0; i < job.count; ++i) {
      job.items[i] = item(number, ordered[done + static_cast<std::size_t>(i)]);
      job.channels = std::max(job.channels, job.items[i].channels);
    }
    job.first = done == 0;
    job.last = done + static_cast<std::size_t>(job.count) == ordered.size();
    launch_messages(job, stream);
  }
}

/// What all launches of one operation are told.
MessageJob ProcessGroup::message_job(std::int64_t number) const {
  const PlannedOp& op = ops_[static_cast<std::size_t>(number)];
  MessageJob job;
  job.number = number;
  job.entry = op.planned.entry;
  job.op = op.planned.op;
  job.payloads = around_.prefetch->payloads();
  job.times = reinterpret_cast<const PartnerTime*>(exchanges_[static_cast<std::size_t>(number)].times.get());
  job.partners = static_cast<int>(op.partners.size());
  job.sink = sink_.get();
  job.progress = reinterpret_cast<Progress*>(progress_.get());
  job.shown = shown();
  job.clock_offset = *around_.clock_offset;
  return job;
}

}  // namespace pruned::device
