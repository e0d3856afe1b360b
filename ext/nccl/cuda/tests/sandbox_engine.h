// The engine of one sandbox rank, over the fake CUDA, with one group.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "../check.h"
#include "../device_engine.h"
#include "contributions.h"

namespace pruned::device::testing {

/// What opens the engine, and its group "group"; `arc_device`: -1 for the same as the sandbox rank's.
struct Casting {
  std::filesystem::path directory;
  int size;
  int rank;
  std::vector<int> sandbox;
  Mode mode = Mode::kLeft;
  int arc_device = -1;
};

class SandboxEngine {
 public:
  explicit SandboxEngine(const Casting& casting);
  ~SandboxEngine();
  SandboxEngine(const SandboxEngine&) = delete;
  SandboxEngine& operator=(const SandboxEngine&) = delete;

  /// Tells of an operation that will come, and of what virtual members bring; `uneven`: as api.h says.
  void plan(const Op& op, bool uneven = false);
  void plan(const Op& op, const Brought& brought);
  /// Returns once the other sandbox ranks' engines have come as far. Throws Failure.
  void start();

  /// Puts the operation on the stream; in a broadcast the tensor of a member that is not the root is its output.
  Verdict launch(const Op& op, std::byte* input, std::byte* output);
  /// Waits for all that is on the stream.
  void finish();

  Report state() { return engine_.state(); }
  cudaStream_t stream() const { return stream_.get(); }

 private:
  Casting casting_;
  prism_device_op planned(const Op& op);
  prism_device_part written(const Bytes& bytes, bool is_there);

  std::string directory_, payloads_;
  DeviceEngine engine_;
  Stream stream_;
  Group* group_ = nullptr;
  std::int64_t entries_ = 0, written_ = 0;
};

}  // namespace pruned::device::testing
