// A host copy on disk: slots in a file, past the page cache where the file system allows that, each with its checksum.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace residency {

class SpillFile {
 public:
  /// A new file with room for `bytes`. Throws Failure if the disk is full or the folder cannot be written.
  SpillFile(std::filesystem::path path, std::size_t bytes);
  /// Removes the file.
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  /// Append a slot's bytes; `bytes` is a multiple of 4,096. Throws Failure.
  void write(const std::byte* slot, std::size_t bytes);
  /// Read slot `index` back. Throws Failure if it is not what was written.
  void read(std::size_t index, std::byte* slot) const;

 private:
  struct Written {
    std::size_t offset;
    std::size_t bytes;
    std::uint64_t checksum;
  };

  std::filesystem::path path_;
  int descriptor_;
  std::vector<Written> written_;
};

/// A checksum of `bytes`, a multiple of 32, at the speed of memory.
std::uint64_t checksum(const std::byte* data, std::size_t bytes);

}  // namespace residency
