#include "peer_memory.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>

#include "check.h"

namespace pruned::device {
namespace {

constexpr auto kBetweenTries = std::chrono::milliseconds(1);

}  // namespace

void offer_memory(const std::string& path, std::byte* data) {
  cudaIpcMemHandle_t handle;
  PRUNED_CUDA(cudaIpcGetMemHandle(&handle, data));
  const std::string made = path + ".made";
  std::ofstream file(made, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&handle), sizeof handle);
  file.close();
  if (!file || std::rename(made.c_str(), path.c_str()) != 0) {
    fail_on_file("cannot write", path);
  }
}

PeerMemory::PeerMemory(const std::string& path, const std::atomic<bool>& given_up) {
  while (access(path.c_str(), R_OK) != 0) {
    if (given_up) {
      throw Failure("stopped while it waited for the sandbox process that makes " + path);
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
  cudaIpcMemHandle_t handle;
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(&handle), sizeof handle)) {
    fail_on_file("cannot read", path);
  }
  void* data = nullptr;
  PRUNED_CUDA(cudaIpcOpenMemHandle(&data, handle, cudaIpcMemLazyEnablePeerAccess));
  data_ = static_cast<std::byte*>(data);
}

PeerMemory::~PeerMemory() {
  if (data_ != nullptr) {
    cudaIpcCloseMemHandle(data_);
  }
}

}  // namespace pruned::device
