#include "memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

namespace pruned::device {

OnDevice::OnDevice(int device) {
  PRUNED_CUDA(cudaGetDevice(&before_));
  PRUNED_CUDA(cudaSetDevice(device));
}

OnDevice::~OnDevice() { cudaSetDevice(before_); }

void ignore_captures() {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  PRUNED_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
}

void FreeDevice::operator()(std::byte* data) const { cudaFree(data); }

DeviceMemory reserved_memory(std::int64_t bytes) {
  void* data = nullptr;
  PRUNED_CUDA(cudaMalloc(&data, static_cast<std::size_t>(bytes)));
  return DeviceMemory(static_cast<std::byte*>(data));
}

DeviceMemory device_memory(std::int64_t bytes) {
  if (bytes == 0) {
    return nullptr;
  }
  DeviceMemory memory = reserved_memory(bytes);
  PRUNED_CUDA(cudaMemset(memory.get(), 0, static_cast<std::size_t>(bytes)));
  PRUNED_CUDA(cudaDeviceSynchronize());
  return memory;
}

void FreePinned::operator()(std::byte* data) const { cudaFreeHost(data); }

PinnedMemory pinned_memory(std::int64_t bytes) {
  void* data = nullptr;
  PRUNED_CUDA(cudaHostAlloc(&data, static_cast<std::size_t>(bytes), cudaHostAllocPortable | cudaHostAllocMapped));
  std::memset(data, 0, static_cast<std::size_t>(bytes));
  return PinnedMemory(static_cast<std::byte*>(data));
}

SharedFile::SharedFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct stat status {};
  if (file < 0 || fstat(file, &status) != 0) {
    fail_on_file("cannot open", path);
  }
  bytes_ = static_cast<std::size_t>(status.st_size);
  void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) {
    fail_on_file("cannot map", path);
  }
  host_ = static_cast<std::int64_t*>(mapped);
  void* device = nullptr;
  PRUNED_CUDA(cudaHostRegister(mapped, bytes_, cudaHostRegisterPortable | cudaHostRegisterMapped));
  PRUNED_CUDA(cudaHostGetDevicePointer(&device, mapped, 0));
  device_ = static_cast<std::int64_t*>(device);
}

SharedFile::~SharedFile() {
  if (device_ != nullptr) {
    cudaHostUnregister(host_);
  }
  munmap(host_, bytes_);
}

}  // namespace pruned::device
