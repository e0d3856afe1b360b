// What can go wrong on the way to CUDA and to files.

#pragma once

#include <cuda_runtime_api.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace pruned::device {

/// The text names the call and its place.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline void check(cudaError_t status, const char* what, const char* file, int line) {
  if (status != cudaSuccess) {
    cudaGetLastError();  // else the next call would report it again
    throw Failure(std::string(what) + " at " + file + ":" + std::to_string(line) + ": " + cudaGetErrorString(status));
  }
}

[[noreturn]] inline void fail_on_file(const std::string& what, const std::string& path) {
  throw Failure(what + " " + path + ": " + std::strerror(errno));
}

}  // namespace pruned::device

#define PRUNED_CUDA(call) ::pruned::device::check((call), #call, __FILE__, __LINE__)
