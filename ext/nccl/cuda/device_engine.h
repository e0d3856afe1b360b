// All that the engine holds in a process: from begin to end there is one.

#pragma once

#include <array>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "clock.h"
#include "process_group.h"

namespace pruned::device {

using Id = std::array<std::uint8_t, 128>;

class DeviceEngine {
 public:
  explicit DeviceEngine(const prism_device_setup& setup);
  ~DeviceEngine();

  void add_group(const std::string& name, int size, int rank, std::vector<int> sandbox, std::int64_t reserve_bytes);
  void plan(const std::string& group, const prism_device_op& op);
  void identify(const Id& id, const std::string& group, std::vector<int> ranks);
  void start();
  Group* communicator(const Id& id, int size, int rank);

  Report state();
  prism_device_figures figures() const;
  /// Ends all kernels that wait; the reason is told where nothing has gone wrong before.
  void abort(const std::string& reason);

 private:
  struct Identity {
    std::string group;
    std::vector<int> ranks;
  };

  ProcessGroup& group(const std::string& name);
  void show(const prism_device_setup& setup);
  std::int64_t* board_pool() const;
  void open_devices();
  void prepare_payloads();
  void set_clocks();
  void take_stash();
  void connect();
  void keep_watch();
  void keep_clocks();
  void look_for_trouble();
  void look_for_call();
  void fail(const std::string& text);

  Trouble trouble_;
  Surroundings around_;
  std::string board_path_, releases_path_;
  std::unique_ptr<SharedFile> board_, releases_;
  PinnedMemory flags_;  // what a kernel found to be unplanned
  std::map<std::string, std::unique_ptr<ProcessGroup>> groups_;
  std::vector<Reading> readings_;
  std::unique_ptr<Prefetch> prefetch_;
  std::unique_ptr<DeviceClock> clock_, arc_clock_;
  std::int64_t stash_bytes_ = 0;
  double start_seconds_ = 0;
  std::mutex identities_mutex_;
  std::map<Id, Identity> identities_;
  std::atomic<bool> given_up_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace pruned::device
