// One engine from begin to end, in a directory of its own, with operations whose payloads lie in a file.

#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "../api.h"
#include "../check.h"
#include "../engine.h"
#include "../memory.h"

namespace pruned::device::on_device {

inline void expect(int status) {
  if (status != 0) {
    throw Failure(prism_device_error());
  }
}

/// A file of int64, mapped.
class SharedWords {
 public:
  explicit SharedWords(const std::string& path);
  ~SharedWords();
  SharedWords(const SharedWords&) = delete;
  SharedWords& operator=(const SharedWords&) = delete;

  std::int64_t* words() const { return words_; }

 private:
  std::int64_t* words_ = nullptr;
  std::size_t bytes_ = 0;
};

class Session {
 public:
  Session(const std::string& directory, int size, int rank, std::vector<int> sandbox, int mode,
          std::int64_t pool_bytes, int channels = 0, const std::string& board = "", const std::string& releases = "",
          std::int64_t ops = 0);
  ~Session();

  /// Bytes at the end of the payload file; none: null.
  prism_device_part part(const std::vector<std::byte>* bytes);
  void plan(prism_device_op op);
  void start();
  Group& group() { return *group_; }
  void finish();  // waits for all, and throws what went wrong

 private:
  std::string directory_, payloads_;
  std::ofstream file_;
  std::int64_t written_ = 0, entries_ = 0;
  int size_, rank_;
  bool shown_;
  Group* group_ = nullptr;
};

}  // namespace pruned::device::on_device
