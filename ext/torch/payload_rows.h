// Rows of elements in the files of the payload store, read and written block by block.

#pragma once

#include <c10/util/Exception.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <system_error>
#include <tuple>
#include <vector>

#include "reductions.h"

namespace prism {

constexpr size_t kKeptRows = 16;  // different rows of a sum whose blocks are kept, if others are the same

using Row = std::tuple<int, int64_t>;  // file descriptor, offset of the row's first byte

inline void transfer(bool reads, int file, char* data, int64_t bytes, int64_t offset) {
  while (bytes > 0) {
    const ssize_t moved = reads ? pread(file, data, bytes, offset) : pwrite(file, data, bytes, offset);
    if (moved < 0 && errno == EINTR) {
      continue;
    }
    TORCH_CHECK(moved != 0, "a payload file ends inside a payload");
    if (moved < 0) {
      throw std::system_error(errno, std::system_category(), reads ? "cannot read a payload" : "cannot write a payload");
    }
    data += moved;
    bytes -= moved;
    offset += moved;
  }
}

template <class T>
void write(const Row& out, T* values, int64_t start, int64_t count) {
  constexpr auto itemsize = static_cast<int64_t>(sizeof(T));
  const auto& [file, offset] = out;
  transfer(false, file, reinterpret_cast<char*>(values), count * itemsize, offset + start * itemsize);
}

// Gives the rows block by block. Where a row is another one again, as ranks bring that stand for many, it is read once.
template <class T>
class Reader {
 public:
  Reader(const std::vector<Row>& rows, double factor, int64_t block) : rows_(rows), factor_(factor) {
    std::map<Row, int64_t> known;
    for (const auto& row : rows) {
      source_.push_back(known.emplace(row, static_cast<int64_t>(known.size())).first->second);
    }
    if (known.size() < rows.size() && known.size() <= kKeptRows) {
      for (size_t i = 0; i < known.size(); ++i) {
        kept_.emplace_back(new T[block]);
      }
    }
  }

  void begin() { filled_.assign(kept_.size(), false); }

  // The elements of a row, in `scratch` or where they are kept for the next that is the same.
  const T* read(int64_t row, T* scratch, int64_t start, int64_t count) {
    if (kept_.empty()) {
      fetch(row, scratch, start, count);
      return scratch;
    }
    const auto source = source_[row];
    if (!filled_[source]) {
      fetch(row, kept_[source].get(), start, count);
      filled_[source] = true;
    }
    return kept_[source].get();
  }

 private:
  void fetch(int64_t row, T* into, int64_t start, int64_t count) const {
    constexpr auto itemsize = static_cast<int64_t>(sizeof(T));
    const auto& [file, offset] = rows_[row];
    transfer(true, file, reinterpret_cast<char*>(into), count * itemsize, offset + start * itemsize);
    if (factor_ != 1.0) {
      scale(into, count, factor_);
    }
  }

  const std::vector<Row>& rows_;
  double factor_;
  std::vector<int64_t> source_;  // rows: which of the different ones it is
  std::vector<std::unique_ptr<T[]>> kept_;
  std::vector<bool> filled_;
};

}  // namespace prism
