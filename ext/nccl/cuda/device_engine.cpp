#include "device_engine.h"

#include <algorithm>
#include <chrono>

#include "communicator.h"
#include "releases.h"

namespace pruned::device {
namespace {

int current_device() {
  int device = 0;
  PRUNED_CUDA(cudaGetDevice(&device));
  return device;
}

void see_each_other(int device, int other) {
  const OnDevice here(device);
  const cudaError_t status = cudaDeviceEnablePeerAccess(other, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
  } else {
    PRUNED_CUDA(status);
  }
}

}  // namespace

DeviceEngine::DeviceEngine(const prism_device_setup& setup) {
  around_.setup = setup;
  around_.directory = setup.directory;
  board_path_ = setup.board == nullptr ? "" : setup.board;
  releases_path_ = setup.releases == nullptr ? "" : setup.releases;
  around_.paced = setup.releases != nullptr;
  around_.trouble = &trouble_;
  if (setup.mode < 0 || setup.mode > static_cast<int>(Mode::kReplicas)) {
    throw std::invalid_argument("there is no contribution " + std::to_string(setup.mode) +
                                ": there are exact (0), left (1), prefolded (2) and replicas (3)");
  }
}

DeviceEngine::~DeviceEngine() {
  abort("the engine has ended");
  for (std::thread& thread : threads_) {
    thread.join();
  }
  cudaDeviceSynchronize();
  prefetch_.reset();
  if (around_.arc_stream != nullptr) {
    cudaStreamDestroy(around_.arc_stream);
  }
}

void DeviceEngine::add_group(const std::string& name, int size, int rank, std::vector<int> sandbox,
                             std::int64_t reserve_bytes) {
  groups_[name] = std::make_unique<ProcessGroup>(around_, name, size, rank, std::move(sandbox), reserve_bytes);
}

ProcessGroup& DeviceEngine::group(const std::string& name) {
  const auto found = groups_.find(name);
  if (found == groups_.end()) {
    throw std::invalid_argument("there is no group " + name + ": prism_device_group() makes it");
  }
  return *found->second;
}

void DeviceEngine::plan(const std::string& name, const prism_device_op& op) {
  ProcessGroup& in = group(name);
  PlannedOp planned = planned_of(op, in.size());
  drop_unread(planned, in.arc_members() > 0, in.sandbox());
  const auto entry = static_cast<std::size_t>(planned.planned.entry);
  readings_.resize(std::max(readings_.size(), entry + 1));
  readings_[entry] = reading_of(planned);
  readings_[entry].group = &in;
  in.plan(std::move(planned));
}

void DeviceEngine::identify(const Id& id, const std::string& name, std::vector<int> ranks) {
  group(name);
  const std::lock_guard lock(identities_mutex_);
  identities_[id] = {name, std::move(ranks)};
}

void DeviceEngine::start() {
  const auto begun = std::chrono::steady_clock::now();
  const prism_device_setup& setup = around_.setup;
  around_.device = setup.device >= 0 ? setup.device : current_device();
  around_.arc_device = setup.arc_device >= 0 ? setup.arc_device : around_.device;
  const OnDevice here(around_.device);
  open_devices();
  show(setup);
  prepare_payloads();
  for (const auto& [name, group] : groups_) {
    group->prepare();
  }
  take_stash();
  set_clocks();
  PRUNED_CUDA(cudaDeviceSynchronize());
  prefetch_->start();
  threads_.emplace_back([this] { keep_watch(); });
  threads_.emplace_back([this] { keep_clocks(); });
  connect();
  start_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

/// If this process is not to go on while it waits for others, it tells why.
void DeviceEngine::connect() {
  try {
    for (const auto& [name, group] : groups_) {
      group->connect(given_up_);
    }
  } catch (const Failure&) {
    if (!given_up_) {
      throw;
    }
    throw Failure(trouble_.first().text);
  }
}

void DeviceEngine::open_devices() {
  load_kernels();
  if (around_.apart()) {
    see_each_other(around_.device, around_.arc_device);
    see_each_other(around_.arc_device, around_.device);
    const OnDevice there(around_.arc_device);
    load_kernels();
    PRUNED_CUDA(cudaStreamCreateWithFlags(&around_.arc_stream, cudaStreamNonBlocking));
  }
}

void DeviceEngine::prepare_payloads() {
  const OnDevice there(around_.arc_device);
  const int readers = readers_for(static_cast<int>(std::thread::hardware_concurrency()));
  prefetch_ = std::make_unique<Prefetch>(std::move(readings_), around_.setup.pool_bytes, around_.arc_device, readers,
                                         board_ == nullptr ? nullptr : board_pool());
  around_.shown.ended = prefetch_->ended();
  around_.shown.looked = prefetch_->looked();
  around_.shown.detours = prefetch_->detours();
  around_.prefetch = prefetch_.get();
}

void DeviceEngine::set_clocks() {
  clock_ = std::make_unique<DeviceClock>(around_.device);
  clock_->set();
  around_.clock_offset = around_.arc_clock_offset = &clock_->offset();
  if (around_.apart()) {
    arc_clock_ = std::make_unique<DeviceClock>(around_.arc_device);
    arc_clock_->set();
    around_.arc_clock_offset = &arc_clock_->offset();
  }
}

/// prism/net/board.py's columns: started, ended [sandbox], posted [sandbox, ops], moved [sandbox, ops, 3], pool.
void DeviceEngine::show(const prism_device_setup& setup) {
  flags_ = pinned_memory(64);
  auto* flags = reinterpret_cast<std::uint32_t*>(flags_.get());
  around_.shown.failed = flags;
  if (!board_path_.empty()) {
    board_ = std::make_unique<SharedFile>(board_path_);
    const std::int64_t ranks = setup.sandbox_ranks, ops = setup.ops;
    if (board_->words() < 2 * ranks + 4 * ranks * ops + 3 * ranks) {
      throw std::invalid_argument("the board " + board_path_ + " is too small for " + std::to_string(ops) +
                                  " operations");
    }
    around_.shown.posted = board_->device() + 2 * ranks + setup.place * ops;
    around_.shown.moved = board_->device() + 2 * ranks + ranks * ops + setup.place * ops * 3;
  }
  if (!releases_path_.empty()) {
    releases_ = std::make_unique<SharedFile>(releases_path_);
    if (releases_->words() < kHeaderWords || releases_->host()[0] != kReleasesMagic) {
      throw std::invalid_argument(releases_path_ + " is no file of releases: releases.h says what is one");
    }
    around_.shown.releases = releases_->device();
  }
}

std::int64_t* DeviceEngine::board_pool() const {
  const prism_device_setup& setup = around_.setup;
  const std::int64_t ranks = setup.sandbox_ranks;
  return board_->host() + 2 * ranks + 4 * ranks * setup.ops + setup.place * 3;
}

/// Each group has its own: they run at one time.
void DeviceEngine::take_stash() {
  const OnDevice there(around_.arc_device);
  for (const auto& [name, group] : groups_) {
    stash_bytes_ += group->take_stash();
  }
}

Group* DeviceEngine::communicator(const Id& id, int size, int rank) {
  const std::lock_guard lock(identities_mutex_);
  const auto found = identities_.find(id);
  if (found == identities_.end()) {
    return nullptr;
  }
  const Identity& identity = found->second;
  ProcessGroup& group = *groups_.at(identity.group);
  if (size < 0) {  // a part of a split, which whoever asks does not know
    const std::vector<int>& ranks = identity.ranks;
    size = static_cast<int>(ranks.size());
    rank = static_cast<int>(std::find(ranks.begin(), ranks.end(), group.rank()) - ranks.begin());
  }
  if (size != static_cast<int>(identity.ranks.size()) || rank < 0 || rank >= size ||
      identity.ranks[static_cast<std::size_t>(rank)] != group.rank()) {
    throw std::runtime_error("a communicator of " + std::to_string(size) + " ranks, this one " + std::to_string(rank) +
                             ", where group " + identity.group + " was to have one of " +
                             std::to_string(identity.ranks.size()));
  }
  return new Communicator(group, identity.ranks, rank, trouble_);
}

}  // namespace pruned::device
