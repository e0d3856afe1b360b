// Sums in ring order, from files to a file: ((x0 + x1) + x2) + ..., each step rounded to the elements' type.
//
// The rows are the members' inputs, where they lie in the payload store; prism.gpu.group.fold says in which order they are
// added, and of which of them partial sums are wanted too. Work goes in blocks that stay in the second-level cache, so
// however many rows there are, each is read once and the result is written once, at the speed of a copy.

#include <ATen/Dispatch_v2.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "payload_rows.h"
#include "reductions.h"

namespace prism {
namespace {

constexpr int64_t kBlockBytes = 256 * 1024;  // a result block and an input block fit a second-level cache

using Piece = std::tuple<int64_t, int64_t, int64_t>;  // first element, end, owner: the row that is added last
using Places = std::pair<int64_t, int64_t>;  // of rows, in the order in which they are added: first, end
using Part = std::tuple<Row, std::vector<Places>, std::vector<int64_t>>;  // where to, places by piece, rows left out

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
}  // namespace prism

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
      "fold", &prism::fold, py::call_guard<py::gil_scoped_release>(), py::arg("rows"), py::arg("out"), py::arg("pieces"),
      py::arg("parts"), py::arg("dtype"), py::arg("reduce"), py::arg("factor") = 1.0);
}
