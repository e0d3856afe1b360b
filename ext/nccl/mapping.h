// A file in memory that several processes map; all zeros is its first, valid state, so nobody has to be first.

#pragma once

#include <cstddef>
#include <filesystem>

namespace pruned {

class Mapping {
 public:
  /// Makes the file if it is not there, and longer if it is too short. Throws std::system_error.
  Mapping(const std::filesystem::path& file, std::size_t bytes);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace pruned
