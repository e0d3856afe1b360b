// The host copy of a rank's device memory: all segments in a row, in slots of the pool or, spilled, in a file.

#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "driver.h"
#include "pool.h"
#include "spill_file.h"

namespace residency {

class Image {
 public:
  /// Room for `bytes` in pinned slots. Throws Failure.
  Image(Pool& pool, std::size_t bytes);
  ~Image();
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  std::size_t bytes() const { return bytes_; }

  /// Pinned memory with slot `index` of the copy; what `stream` copies out of another slot may have to end first.
  std::byte* slot(std::size_t index, Stream stream);

  /// Move the copy to a file. Throws Failure, and then it stays where it was.
  void spill(const std::filesystem::path& path);
  bool spilled() const { return file_.has_value(); }

 private:
  Pool& pool_;
  std::size_t bytes_;
  std::vector<std::uint32_t> slots_;
  std::optional<SpillFile> file_;
  std::optional<std::size_t> loaded_;  // which slot of a spilled copy is in the one slot that it has for reading
};

}  // namespace residency
