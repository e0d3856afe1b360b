// Collectives of a process group: each call is held to what was planned, and becomes a kernel.

#include <algorithm>

#include "../published.h"
#include "process_group.h"
#include "ring_parts.h"
#include "scales.h"

namespace pruned::device {
namespace {

template <class T>
T* as(const DeviceMemory& memory) {
  return reinterpret_cast<T*>(memory.get());
}

}  // namespace

Verdict ProcessGroup::launch(const Work& work, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  if (const Verdict before = state(); before != Verdict::kFine) {
    return before;
  }
  const std::int64_t number = next_;
  const std::string done = describe(static_cast<int>(work.kind), static_cast<int>(work.dtype),
                                    static_cast<int>(work.reduce), work.count, work.root);
  const bool captured = is_captured(stream);
  if (number >= static_cast<std::int64_t>(ops_.size()) && !replayed_) {
    return mismatch(number, done);
  }
  // Once graphs are launched again the host cannot know how far the group is; the kernel looks for itself.
  const PlannedOp& op = ops_[std::min(number, static_cast<std::int64_t>(ops_.size()) - 1)];
  const Planned& planned = op.planned;
  if (!replayed_ && !is_planned(work, planned)) {
    return mismatch(number, done);
  }
  replayed_ = replayed_ || captured;
  RingJob job = this->job(work, planned);
  job.number = replayed_ ? -1 : number;
  order_.begin(stream);
  publish(job, work, op, stream);
  launch_job(job, stream);
  order_.end(stream);
  ++next_;
  return Verdict::kFine;
}

Shown ProcessGroup::shown() const {
  Shown shown = around_.shown;
  shown.aborted = reinterpret_cast<const volatile std::uint32_t*>(aborted_.get());
  return shown;
}

bool ProcessGroup::is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  PRUNED_CUDA(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

/// NCCL's counts are one member's.
bool ProcessGroup::is_planned(const Work& work, const Planned& planned) const {
  if (static_cast<Kind>(planned.kind) == Kind::kBarrier) {
    return work.kind == Kind::kAllReduce && work.count == 1;
  }
  const std::int64_t count = work.kind == Kind::kReduceScatter ? work.count * size_ : work.count;
  return planned.kind == static_cast<std::int32_t>(work.kind) &&
         planned.dtype == static_cast<std::int32_t>(work.dtype) && planned.count == count &&
         (!reduces(work.kind) || planned.reduce == static_cast<std::int32_t>(work.reduce)) &&
         (!is_chain(work.kind) || planned.root == work.root);
}

Verdict ProcessGroup::mismatch(std::int64_t number, const std::string& done) {
  std::string planned = "nothing more";
  if (number < static_cast<std::int64_t>(ops_.size())) {
    const Planned& op = ops_[static_cast<std::size_t>(number)].planned;
    planned = describe(op.kind, op.dtype, op.reduce, op.count, op.root);
  }
  around_.trouble->report({.kind = Verdict::kMismatch,
                           .group = name_,
                           .number = number,
                           .text = "the program does " + done + " where the capture did " + planned});
  return Verdict::kMismatch;
}

RingJob ProcessGroup::job(const Work& work, const Planned& planned) const {
  Planned done = planned;  // where the host does not know which one it is, what is called says it
  if (static_cast<Kind>(planned.kind) != Kind::kBarrier || work.count != 1) {
    done.kind = static_cast<std::int32_t>(work.kind);
    done.dtype = static_cast<std::int32_t>(work.dtype);
    done.root = work.root;
    done.count = work.kind == Kind::kReduceScatter ? work.count * size_ : work.count;
  }
  RingJob job;
  job.outline = outline_of(done, size_);
  job.outline.item = static_cast<std::int64_t>(itemsize(work.dtype));
  job.block = block_of(done, size_);
  job.dtype = work.dtype;
  job.rank = rank_;
  job.mode = mode();
  job.rule = rule_of(work, size_);
  job.scale = work.scale_on_device ? work.scale : nullptr;
  job.input = static_cast<const std::byte*>(work.input);
  job.output = static_cast<std::byte*>(work.output);
  job.arc_members = arc_members();
  const Shape shape = shape_of(done);
  job.channels = shape.channels;
  job.parts = shape.parts;
  job.lines = shape.lines;
  job.stash = stash_of(done, size_, std::max(job.arc_members, 1), job.mode, shape);
  give_memory(job);
  return job;
}

/// The group's memory, and what all of the process share.
void ProcessGroup::give_memory(RingJob& job) const {
  job.left = as<FifoChannel>(inlet_);
  job.right = reinterpret_cast<FifoChannel*>(right_);
  job.arc_in = as<FifoChannel>(arc_inlet_);
  job.left_credits = as<FifoCredits>(left_credits_);
  job.right_credits = as<FifoCredits>(right_credits_);
  job.stash.data = stash_.get();
  job.stash.arrivals = as<std::int64_t>(arrivals_);
  job.stash.received = as<std::uint64_t>(counts_);
  job.stash.sent = job.stash.received + kMaxChannels * kCountStride;
  job.planned = as<Planned>(planned_);
  job.planned_count = static_cast<std::int64_t>(ops_.size());
  job.payloads = around_.prefetch->payloads();
  job.progress = as<Progress>(progress_);
  job.shown = shown();
  job.clock_offset = *around_.clock_offset;
  job.system = around_.apart() || sandbox_.size() > 1;
}

/// A copy: the member may overwrite what it has while virtual members still bring the same.
void ProcessGroup::publish(RingJob& job, const Work& work, const PlannedOp& op, cudaStream_t stream) const {
  const auto bytes = static_cast<std::size_t>(published_bytes(op));
  if (bytes == 0) {
    return;
  }
  const std::byte* data = published_of(work.kind, work.root == rank_, static_cast<const std::byte*>(work.input),
                                       static_cast<const std::byte*>(work.output));
  PRUNED_CUDA(cudaMemcpyAsync(published_.get(), data, bytes, cudaMemcpyDefault, stream));
  job.published = published_.get();
  if (around_.apart()) {
    PRUNED_CUDA(cudaEventRecord(is_published_.get(), stream));
    PRUNED_CUDA(cudaStreamWaitEvent(around_.arc_stream, is_published_.get(), 0));
  }
}

void ProcessGroup::launch_job(const RingJob& job, cudaStream_t stream) {
  const int all = parties(job);
  launch_ring(job, kMember, around_.apart() ? 1 : all, stream);
  if (around_.apart() && all > 1) {
    const OnDevice there(around_.arc_device);
    RingJob apart = job;
    apart.clock_offset = *around_.arc_clock_offset;
    apart.planned = as<Planned>(arc_planned_);
    launch_ring(apart, kArcSender, all - 1, around_.arc_stream);
  }
}

}  // namespace pruned::device
