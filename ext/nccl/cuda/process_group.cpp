#include "process_group.h"

#include <algorithm>

#include "../published.h"
#include "message_parts.h"

namespace pruned::device {
namespace {

DeviceMemory device_table(const std::vector<Planned>& table) {
  const std::size_t bytes = table.size() * sizeof(Planned);
  DeviceMemory memory = device_memory(static_cast<std::int64_t>(bytes));
  if (bytes > 0) {
    PRUNED_CUDA(cudaMemcpy(memory.get(), table.data(), bytes, cudaMemcpyDefault));
  }
  return memory;
}

}  // namespace

ProcessGroup::ProcessGroup(Surroundings& around, std::string name, int size, int rank, std::vector<int> sandbox,
                           std::int64_t reserve_bytes)
    : around_(around),
      name_(std::move(name)),
      size_(size),
      rank_(rank),
      sandbox_(std::move(sandbox)),
      reserve_bytes_(reserve_bytes) {
  std::ranges::sort(sandbox_);
  if (!std::ranges::binary_search(sandbox_, rank_) || sandbox_.front() < 0 || sandbox_.back() >= size_) {
    throw std::invalid_argument("group " + name_ + ": member " + std::to_string(rank_) + " is not in its sandbox");
  }
}

int ProcessGroup::neighbour(int direction) const {
  const auto place = std::ranges::find(sandbox_, rank_) - sandbox_.begin();
  const int next = wrapped(static_cast<int>(place) + direction, static_cast<int>(sandbox_.size()));
  return sandbox_[static_cast<std::size_t>(next)];
}

int ProcessGroup::arc_members() const { return wrapped(rank_ - neighbour(-1) - 1, size_); }

std::int64_t ProcessGroup::take_stash() {
  std::int64_t most = 0;
  for (const PlannedOp& op : ops_) {
    if (!is_exchange(op.planned.kind) && arc_members() > 0) {
      const Shape shape = shape_of(op.planned);
      most = std::max(most, stash_bytes(stash_of(op.planned, size_, arc_members(), mode(), shape), shape));
    }
  }
  stash_ = device_memory(most);
  return most;
}

/// Of what the member publishes in this operation; 0 where virtual members bring something else, or zeros.
std::int64_t ProcessGroup::published_bytes(const PlannedOp& op) const {
  const Planned& planned = op.planned;
  const auto called = static_cast<Kind>(planned.kind);
  const Kind kind = op.uneven && called == Kind::kBroadcast ? Kind::kAllGather : called;
  const bool published = plays_replicas() && !is_exchange(planned.kind) && is_published(kind, !op.uneven);
  return published ? planned.count * static_cast<std::int64_t>(itemsize(static_cast<Dtype>(planned.dtype))) : 0;
}

void ProcessGroup::prepare() {
  if (plays_replicas() && sandbox_.size() > 1) {
    throw std::invalid_argument("group " + name_ + ": replicas on a device need a group with one sandbox member");
  }
  aborted_ = pinned_memory(64);
  std::vector<Planned> table;
  std::int64_t published = 0;
  bool rings = false, messages = false;
  for (const PlannedOp& op : ops_) {
    table.push_back(op.planned);
    exchanges_.emplace_back();
    if (is_exchange(op.planned.kind)) {
      reading_of(op, &exchanges_.back().offsets);
      exchanges_.back().times = times_of(op);
      messages = true;
    } else {
      channels_ = std::max(channels_, shape_of(op.planned).channels);
      published = std::max(published, published_bytes(op));
      rings = true;
    }
  }
  published_ = device_memory(published);
  if (published > 0 && around_.apart()) {
    is_published_ = order_event();
  }
  progress_ = device_memory(sizeof(Progress));
  sink_ = device_memory(messages ? kSinkSize + kMessageSlice : 0);
  prepare_rings(table, rings ? device::fifo_bytes(channels_) : 0);
  prepare_messages();
}

/// What the ring takes, with FIFOs of so many bytes; what is the arc's lies on its device.
void ProcessGroup::prepare_rings(const std::vector<Planned>& table, std::int64_t bytes) {
  const bool arc = arc_members() > 0;
  const std::int64_t credit_bytes = bytes > 0 ? kMaxChannels * static_cast<std::int64_t>(sizeof(FifoCredits)) : 0;
  inlet_ = device_memory(bytes);
  planned_ = device_table(table);
  right_credits_ = device_memory(arc && sandbox_.size() == 1 ? credit_bytes : 0);
  fifo_bytes_ = bytes * (arc ? 2 : 1);
  const OnDevice there(around_.arc_device);
  arc_inlet_ = device_memory(arc ? bytes : 0);
  counts_ = device_memory(2 * kMaxChannels * kCountStride * 8);
  arrivals_ = device_memory(around_.paced ? std::max(size_, 16) * kMaxChannels * 8 : 0);
  arc_planned_ = around_.apart() && arc ? device_table(table) : nullptr;
  left_credits_ = device_memory(arc ? credit_bytes : 0);
  if (sandbox_.size() > 1 && bytes > 0) {
    offer_memory(ring_path(rank_), arc ? arc_inlet_.get() : inlet_.get());
  }
}

/// FIFOs of messages between sandbox members, where there are any planned.
void ProcessGroup::prepare_messages() {
  const OnDevice here(around_.device);
  for (const PlannedOp& op : ops_) {
    for (const Partner& partner : op.partners) {
      const bool sandbox = partner.peer != rank_ && std::ranges::binary_search(sandbox_, partner.peer);
      if (sandbox && !partner.sends && !from_peers_.contains(partner.peer)) {
        DeviceMemory& fifo = from_peers_[partner.peer] = device_memory(device::fifo_bytes(kMessageChannels));
        fifo_bytes_ += device::fifo_bytes(kMessageChannels);
        offer_memory(message_path(partner.peer, rank_), fifo.get());
      }
    }
  }
}

std::string ProcessGroup::ring_path(int to) const {
  return around_.directory + "/" + name_ + "-to" + std::to_string(to);
}

std::string ProcessGroup::message_path(int from, int to) const {
  return around_.directory + "/" + name_ + "-from" + std::to_string(from) + "-to" + std::to_string(to);
}

void ProcessGroup::connect(const std::atomic<bool>& given_up) {
  if (inlet_ != nullptr && sandbox_.size() > 1) {
    opened_.emplace_back(ring_path(neighbour(1)), given_up);
    right_ = opened_.back().data();
  } else {
    right_ = arc_inlet_.get();
  }
  for (const PlannedOp& op : ops_) {
    for (const Partner& partner : op.partners) {
      const bool sandbox = partner.peer != rank_ && std::ranges::binary_search(sandbox_, partner.peer);
      if (sandbox && partner.sends && !to_peers_.contains(partner.peer)) {
        opened_.emplace_back(message_path(rank_, partner.peer), given_up);
        to_peers_[partner.peer] = opened_.back().data();
      }
    }
  }
}

void ProcessGroup::open() {
  const std::lock_guard lock(mutex_);
  if (communicators_++ == 0 && reserve_bytes_ > 0) {
    const OnDevice here(around_.device);
    reserved_ = reserved_memory(reserve_bytes_);
  }
}

void ProcessGroup::abort() {
  if (aborted_ != nullptr) {
    std::atomic_ref(*reinterpret_cast<std::uint32_t*>(aborted_.get())).store(1);
  }
}

Verdict ProcessGroup::state() const {
  const Verdict first = around_.trouble->kind();
  const bool aborted = aborted_ != nullptr && *reinterpret_cast<const volatile std::uint32_t*>(aborted_.get()) != 0;
  return first == Verdict::kFine && aborted ? Verdict::kAborted : first;
}

void ProcessGroup::close() {
  const std::lock_guard lock(mutex_);
  if (--communicators_ == 0) {
    reserved_.reset();
  }
}

}  // namespace pruned::device
