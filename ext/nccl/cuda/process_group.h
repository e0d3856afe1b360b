// A process group with virtual members, as the process of one of its sandbox members holds it: memory, plan, progress.

#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <span>

#include "check.h"
#include "events.h"
#include "kernels.h"
#include "memory.h"
#include "peer_memory.h"
#include "plan.h"
#include "prefetch.h"
#include "stream_order.h"
#include "trouble.h"

namespace pruned::device {

constexpr int kMessageChannels = 8;

/// What all groups of the process share.
struct Surroundings {
  prism_device_setup setup = {};
  std::string directory;
  int device = 0, arc_device = 0;
  bool paced = false;
  Shown shown;
  const Prefetch* prefetch = nullptr;
  const std::atomic<std::int64_t>* clock_offset = nullptr;
  const std::atomic<std::int64_t>* arc_clock_offset = nullptr;  // of the arcs' device
  Trouble* trouble = nullptr;
  cudaStream_t arc_stream = nullptr;  // of the arcs' device, where that is another one

  bool apart() const { return device != arc_device; }
};

class ProcessGroup {
 public:
  ProcessGroup(Surroundings& around, std::string name, int size, int rank, std::vector<int> sandbox,
               std::int64_t reserve_bytes);

  void plan(PlannedOp op) { ops_.push_back(std::move(op)); }
  std::span<const PlannedOp> ops() const { return ops_; }
  /// Takes memory, and leaves what opens its FIFOs to others.
  void prepare();
  /// Opens others' FIFOs; blocks until they are there.
  void connect(const std::atomic<bool>& given_up);
  /// Memory for what arcs keep, on the current device; returns its bytes.
  std::int64_t take_stash();

  Verdict launch(const Work& work, cudaStream_t stream);
  /// `peers` of messages are group ranks.
  Verdict launch(std::span<const Message> messages, cudaStream_t stream);

  /// A communicator was made, or closed.
  void open();
  void close();
  /// Ends the group's kernels that wait, and all later launches.
  void abort();
  Verdict state() const;

  const std::string& name() const { return name_; }
  int size() const { return size_; }
  int rank() const { return rank_; }
  std::span<const int> sandbox() const { return sandbox_; }
  /// How many virtual members are between the sandbox member before this one and this one.
  int arc_members() const;
  int device() const { return around_.device; }
  std::int64_t fifo_bytes() const { return fifo_bytes_; }
  std::int64_t reserved() const { return reserved_ == nullptr ? 0 : reserve_bytes_; }

 private:
  struct Exchange {  // what a planned operation in messages needs
    std::vector<std::int64_t> offsets;
    DeviceMemory times;
  };

  int neighbour(int direction) const;
  void prepare_rings(const std::vector<Planned>& table, std::int64_t bytes);
  void prepare_messages();
  std::string ring_path(int to) const;
  std::string message_path(int from, int to) const;
  Shown shown() const;
  static bool is_captured(cudaStream_t stream);
  bool is_planned(const Work& work, const Planned& planned) const;
  Verdict mismatch(std::int64_t number, const std::string& done);
  RingJob job(const Work& work, const Planned& planned) const;
  void give_memory(RingJob& job) const;
  void launch_job(const RingJob& job, cudaStream_t stream);
  Mode mode() const { return static_cast<Mode>(around_.setup.mode); }
  Shape shape_of(const Planned& planned) const {
    return device::shape_of(planned, size_, mode(), width_for(around_.setup.channels, around_.setup.sharing));
  }
  bool plays_replicas() const { return mode() == Mode::kReplicas && arc_members() > 0; }
  std::int64_t published_bytes(const PlannedOp& op) const;
  void publish(RingJob& job, const Work& work, const PlannedOp& op, cudaStream_t stream) const;

  struct Found {  // a message, and the partner of the planned operation that it is
    const Message* message;
    int partner;
  };
  std::optional<std::vector<Found>> found(const PlannedOp& op, std::span<const Message> messages,
                                          std::vector<bool>& taken) const;
  Verdict refuse_captured(const std::string& done);
  void copy_own(std::span<const Message> messages, std::vector<bool>& taken, cudaStream_t stream) const;
  void launch_found(std::int64_t number, std::span<const Found> found, cudaStream_t stream);
  MessageJob message_job(std::int64_t number) const;
  MessageItem item(std::int64_t number, const Found& found);
  DeviceMemory times_of(const PlannedOp& op) const;
  void spread_times(const PlannedOp& op, std::vector<PartnerTime>& times) const;

  Surroundings& around_;
  std::string name_;
  int size_;
  int rank_;
  std::vector<int> sandbox_;
  std::int64_t reserve_bytes_;
  std::vector<PlannedOp> ops_;
  std::vector<Exchange> exchanges_;

  int channels_ = 1;  // the most of any operation
  std::int64_t fifo_bytes_ = 0;
  DeviceMemory published_;  // for replicas: what the member has before the operation that runs
  Event is_published_;
  DeviceMemory inlet_, arc_inlet_, counts_, arrivals_, planned_, arc_planned_, progress_, sink_, reserved_, stash_;
  DeviceMemory left_credits_, right_credits_;
  std::map<int, DeviceMemory> from_peers_;  // FIFOs of messages, by sandbox member
  std::map<int, std::byte*> to_peers_;
  std::byte* right_ = nullptr;
  std::vector<PeerMemory> opened_;

  std::mutex mutex_;
  StreamOrder order_;
  std::int64_t next_ = 0;
  bool replayed_ = false;  // the device alone knows which operation comes next
  int communicators_ = 0;
  PinnedMemory aborted_;  // a word that kernels look at
};

}  // namespace pruned::device
