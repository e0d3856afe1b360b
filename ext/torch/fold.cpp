// Sums in ring order, from files to a file: ((x0 + x1) + x2) + ..., each step rounded to the elements' type.
//
// The rows are the members' inputs, where they lie in the payload store; prism.gpu.group.fold says in which order they are
// added, and of which of them partial sums are wanted too. Work goes in blocks that stay in the second-level cache, so
// however many rows there are, each is read once and the result is written once, at the speed of a copy.

#include <ATen/Dispatch_v2.h>
#include <torch/extension.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

namespace {

constexpr int64_t kBlockBytes = 256 * 1024;  // a result block and an input block fit a second-level cache
constexpr size_t kKeptRows = 16;              // different rows of a sum whose blocks are kept, if others are the same

using Row = std::tuple<int, int64_t>;             // file descriptor, offset of the row's first byte
using Piece = std::tuple<int64_t, int64_t, int64_t>;  // first element, end, owner: the row that is added last
using Places = std::pair<int64_t, int64_t>;  // of rows, in the order in which they are added: first, end
using Part = std::tuple<Row, std::vector<Places>, std::vector<int64_t>>;  // where to, places by piece, rows left out

void transfer(bool reads, int file, char* data, int64_t bytes, int64_t offset) {
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
bool is_nan(T value) {
  if constexpr (std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>) {
    return std::isnan(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value);
  } else {
    return false;
  }
}

enum class Reduce { kSum, kProduct, kMin, kMax };

template <class T, Reduce R>
T combine(T a, T b) {
  if constexpr (R == Reduce::kMin) {
    return is_nan(a) || (!is_nan(b) && a < b) ? a : b;
  } else if constexpr (R == Reduce::kMax) {
    return is_nan(a) || (!is_nan(b) && b < a) ? a : b;
  } else if constexpr (std::is_same_v<T, bool>) {
    return R == Reduce::kSum ? a || b : a && b;
  } else {
    return static_cast<T>(R == Reduce::kSum ? a + b : a * b);
  }
}

// The factor of an average, in the arithmetic in which torch multiplies such a tensor by a number.
template <class T>
void scale(T* values, int64_t count, double factor) {
  if constexpr (std::is_same_v<T, double>) {
    for (int64_t i = 0; i < count; ++i) {
      values[i] *= factor;
    }
  } else if constexpr (!std::is_integral_v<T>) {
    const auto single = static_cast<float>(factor);
    for (int64_t i = 0; i < count; ++i) {
      values[i] = static_cast<T>(static_cast<float>(values[i]) * single);
    }
  }
}

template <class T, Reduce R>
void add(T* total, const T* input, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    total[i] = combine<T, R>(total[i], input[i]);
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

  int64_t rows() const { return static_cast<int64_t>(rows_.size()); }

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

// A partial sum, made block by block beside the whole one.
template <class T, Reduce R>
class PartialSum {
 public:
  PartialSum(const Part& part, int64_t rows, int64_t block)
      : out_(std::get<0>(part)), places_(std::get<1>(part)), left_out_(rows), sum_(new T[block]) {
    for (const auto row : std::get<2>(part)) {
      left_out_[row] = true;
    }
    whole_ = std::get<2>(part).empty();
  }

  void begin(size_t piece, int64_t count) {
    std::tie(first_, end_) = places_[piece];
    empty_ = true;
    if (first_ >= end_) {
      std::fill_n(sum_.get(), count, T(0));
    }
  }

  // A row has been added to the whole sum: `input` is the row, `total` the sum.
  void take(int64_t place, int64_t row, const T* input, const T* total, int64_t count) {
    if (place < first_ || place >= end_ || left_out_[row]) {
      return;
    }
    if (whole_ && first_ == 0) {  // the same as the whole sum up to its last place
      if (place == end_ - 1) {
        std::copy_n(total, count, sum_.get());
      }
    } else if (empty_) {
      std::copy_n(input, count, sum_.get());
    } else {
      add<T, R>(sum_.get(), input, count);
    }
    empty_ = false;
  }

  void end(int64_t start, int64_t count) { write(out_, sum_.get(), start, count); }

 private:
  Row out_;
  const std::vector<Places>& places_;
  std::vector<bool> left_out_;
  bool whole_;
  std::unique_ptr<T[]> sum_;
  int64_t first_ = 0, end_ = 0;
  bool empty_ = true;
};

template <class T, Reduce R>
void fold_block(
    Reader<T>& reader, std::vector<PartialSum<T, R>>& sums, int64_t owner, T* total, T* input, int64_t start,
    int64_t count) {
  const auto size = reader.rows();
  reader.begin();
  for (int64_t place = 0; place < size; ++place) {
    const int64_t row = (owner + 1 + place) % size;
    const T* const values = reader.read(row, place == 0 ? total : input, start, count);
    if (place > 0) {
      add<T, R>(total, values, count);
    } else if (values != total) {
      std::copy_n(values, count, total);
    }
    for (auto& sum : sums) {
      sum.take(place, row, values, total, count);
    }
  }
}

template <class T, Reduce R>
void fold_rows(
    const std::vector<Row>& rows, const Row& out, const std::vector<Piece>& pieces, const std::vector<Part>& parts,
    double factor) {
  constexpr int64_t block = kBlockBytes / static_cast<int64_t>(sizeof(T));
  Reader<T> reader(rows, factor, block);
  const std::unique_ptr<T[]> total(new T[block]), input(new T[block]);
  std::vector<PartialSum<T, R>> sums;
  for (const auto& part : parts) {
    sums.emplace_back(part, static_cast<int64_t>(rows.size()), block);
  }
  for (size_t piece = 0; piece < pieces.size(); ++piece) {
    const auto [first, end, owner] = pieces[piece];
    for (int64_t start = first; start < end; start += block) {
      const int64_t count = std::min(block, end - start);
      for (auto& sum : sums) {
        sum.begin(piece, count);
      }
      fold_block(reader, sums, owner, total.get(), input.get(), start, count);
      write(out, total.get(), start, count);
      for (auto& sum : sums) {
        sum.end(start, count);
      }
    }
  }
}

template <class T>
void fold_as(
    const std::vector<Row>& rows, const Row& out, const std::vector<Piece>& pieces, const std::vector<Part>& parts,
    const std::string& reduce, double factor) {
  if (reduce == "sum") {
    fold_rows<T, Reduce::kSum>(rows, out, pieces, parts, factor);
  } else if (reduce == "product") {
    fold_rows<T, Reduce::kProduct>(rows, out, pieces, parts, factor);
  } else if (reduce == "min") {
    fold_rows<T, Reduce::kMin>(rows, out, pieces, parts, factor);
  } else if (reduce == "max") {
    fold_rows<T, Reduce::kMax>(rows, out, pieces, parts, factor);
  } else {
    TORCH_CHECK(false, "no such reduction here: ", reduce);
  }
}

void fold(
    const std::vector<Row>& rows, const Row& out, const std::vector<Piece>& pieces, const std::vector<Part>& parts,
    at::ScalarType dtype, const std::string& reduce, double factor) {
  AT_DISPATCH_V2(
      dtype, "prism_fold", AT_WRAP([&] { fold_as<scalar_t>(rows, out, pieces, parts, reduce, factor); }),
      AT_EXPAND(AT_ALL_TYPES), at::kHalf, at::kBFloat16, at::kBool);
}

}  // namespace

/// What the kernel refuses is an OSError with its number, as it is of a file that Python writes.
void as_os_error(std::exception_ptr thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::system_error& error) {
    errno = error.code().value();
    PyErr_SetFromErrno(PyExc_OSError);
  }
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  py::register_local_exception_translator(&as_os_error);
  m.def(
      "fold", &fold, py::call_guard<py::gil_scoped_release>(), py::arg("rows"), py::arg("out"), py::arg("pieces"),
      py::arg("parts"), py::arg("dtype"), py::arg("reduce"), py::arg("factor") = 1.0);
}
