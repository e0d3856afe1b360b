// Sums in ring order, from files to a file: ((x0 + x1) + x2) + ..., each step rounded to the elements' type.
//
// The rows are the members' inputs, where they lie in the payload store; prism.gpu.group.fold says in which order they are
// added, and of which of them partial sums are wanted too. Work goes in blocks that stay in the second-level cache, so
// however many rows there are, each is read once and the result is written once, at the speed of a copy. A row that
// comes again and again, as that of a rank which stands for many, is added so many times without being read again. The
// blocks do not depend on each other: where there is much to add, they are dealt to threads.

#include <ATen/Dispatch_v2.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <system_error>
#include <tuple>
#include <vector>

#include "dealing.h"
#include "payload_rows.h"
#include "reductions.h"
#include "ring_runs.h"

namespace prism {
namespace {

constexpr int64_t kBlockBytes = 256 * 1024;  // a result block and an input block fit a second-level cache
constexpr int64_t kWorthThreads = 8 << 20;  // additions, from which on it pays to begin threads
constexpr int64_t kMostThreads = 16;  // more would wait for memory

using Piece = std::tuple<int64_t, int64_t, int64_t>;  // first element, end, owner: the row that is added last
using Part = std::tuple<Row, std::vector<Places>, std::vector<int64_t>>;  // where to, places by piece, rows left out

// What is asked for.
struct Task {
  const std::vector<Row>& rows;
  const Row& out;
  const std::vector<Piece>& pieces;
  const std::vector<Part>& parts;
  double factor;
};

struct Block {
  size_t piece;
  int64_t start, count;
};

std::vector<Block> blocks_of(const std::vector<Piece>& pieces, int64_t most) {
  std::vector<Block> blocks;
  for (size_t piece = 0; piece < pieces.size(); ++piece) {
    const auto [first, end, owner] = pieces[piece];
    for (int64_t start = first; start < end; start += most) {
      blocks.push_back({piece, start, std::min(most, end - start)});
    }
  }
  return blocks;
}

std::vector<std::vector<bool>> left_out(const Task& task) {
  std::vector<std::vector<bool>> result;
  for (const auto& part : task.parts) {
    auto& rows = result.emplace_back(task.rows.size());
    for (const auto row : std::get<2>(part)) {
      rows[row] = true;
    }
  }
  return result;
}

// A partial sum, made block by block beside the whole one.
template <class T, Reduce R>
class PartialSum {
 public:
  PartialSum(const Part& part, const std::vector<bool>& left_out, int64_t block)
      : out_(std::get<0>(part)),
        places_(std::get<1>(part)),
        left_out_(left_out),
        whole_(std::get<2>(part).empty()),
        sum_(new T[block]) {}

  const Places& begin(const Block& block) {
    std::tie(first_, end_) = places_[block.piece];
    empty_ = true;
    return places_[block.piece];
  }

  // Rows have been added to the whole sum: `input` is each of them, `total` the sum.
  void take(const Run& run, const T* input, const T* total, int64_t count) {
    if (run.place < first_ || run.place >= end_ || left_out_[run.row]) {
      return;
    }
    if (whole_ && first_ == 0) {  // the same as the whole sum up to its last place
      if (run.place + run.times == end_) {
        std::copy_n(total, count, sum_.get());
      }
    } else if (empty_) {
      std::copy_n(input, count, sum_.get());
      add<T, R>(sum_.get(), input, count, run.times - 1);
    } else {
      add<T, R>(sum_.get(), input, count, run.times);
    }
    empty_ = false;
  }

  void end(const Block& block) {
    if (empty_) {  // there are no such places, or all their rows are left out
      std::fill_n(sum_.get(), block.count, T(0));
    }
    write(out_, sum_.get(), block.start, block.count);
  }

 private:
  const Row& out_;
  const std::vector<Places>& places_;
  const std::vector<bool>& left_out_;
  bool whole_;
  std::unique_ptr<T[]> sum_;
  int64_t first_ = 0, end_ = 0;
  bool empty_ = true;
};

// Folds blocks, one after the other, in memory of its own.
template <class T, Reduce R>
class Folder {
 public:
  Folder(const Task& task, const RingRuns& runs, const std::vector<std::vector<bool>>& left_out, int64_t block)
      : task_(task), runs_(runs), reader_(task.rows, task.factor, block), total_(new T[block]), input_(new T[block]) {
    for (size_t part = 0; part < task.parts.size(); ++part) {
      sums_.emplace_back(task.parts[part], left_out[part], block);
    }
  }

  void fold(const Block& block) {
    std::vector<Places> bounds;
    for (auto& sum : sums_) {
      bounds.push_back(sum.begin(block));
    }
    reader_.begin();
    for (const auto& run : runs_.of(std::get<2>(task_.pieces[block.piece]), bounds)) {
      add_run(run, block);
    }
    write(task_.out, total_.get(), block.start, block.count);
    for (auto& sum : sums_) {
      sum.end(block);
    }
  }

 private:
  void add_run(const Run& run, const Block& block) {
    T* const total = total_.get();
    const T* const values = reader_.read(run.row, input_.get(), block.start, block.count);
    if (run.place == 0) {
      std::copy_n(values, block.count, total);
    }
    add<T, R>(total, values, block.count, run.place == 0 ? run.times - 1 : run.times);
    for (auto& sum : sums_) {
      sum.take(run, values, total, block.count);
    }
  }

  const Task& task_;
  const RingRuns& runs_;
  Reader<T> reader_;
  std::unique_ptr<T[]> total_, input_;
  std::vector<PartialSum<T, R>> sums_;
};

int64_t threads_for(const Task& task) {
  int64_t elements = 0;
  for (const auto& [first, end, owner] : task.pieces) {
    elements += end - first;
  }
  const auto additions = elements * static_cast<int64_t>(task.rows.size());
  return additions < kWorthThreads ? 1 : std::min(usable_processors(), kMostThreads);
}

template <class T, Reduce R>
void fold_rows(const Task& task, int64_t threads) {
  constexpr int64_t most = kBlockBytes / static_cast<int64_t>(sizeof(T));
  const auto blocks = blocks_of(task.pieces, most);
  const auto without = left_out(task);
  const RingRuns runs(task.rows, without);
  deal(static_cast<int64_t>(blocks.size()), threads, [&] {
    return [&blocks, folder = Folder<T, R>(task, runs, without, most)](int64_t number) mutable {
      folder.fold(blocks[number]);
    };
  });
}

template <class T>
void fold_as(const Task& task, const std::string& reduce, int64_t threads) {
  if (reduce == "sum") {
    fold_rows<T, Reduce::kSum>(task, threads);
  } else if (reduce == "product") {
    fold_rows<T, Reduce::kProduct>(task, threads);
  } else if (reduce == "min") {
    fold_rows<T, Reduce::kMin>(task, threads);
  } else if (reduce == "max") {
    fold_rows<T, Reduce::kMax>(task, threads);
  } else {
    TORCH_CHECK(false, "no such reduction here: ", reduce);
  }
}

/// `threads`: 0 for as many as the work is worth.
void fold(
    const std::vector<Row>& rows, const Row& out, const std::vector<Piece>& pieces, const std::vector<Part>& parts,
    at::ScalarType dtype, const std::string& reduce, double factor, int64_t threads) {
  const Task task{rows, out, pieces, parts, factor};
  threads = threads > 0 ? threads : threads_for(task);
  AT_DISPATCH_V2(
      dtype, "prism_fold", AT_WRAP([&] { fold_as<scalar_t>(task, reduce, threads); }), AT_EXPAND(AT_ALL_TYPES),
      at::kHalf, at::kBFloat16, at::kBool);
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
      py::arg("parts"), py::arg("dtype"), py::arg("reduce"), py::arg("factor") = 1.0,
      py::arg("threads") = 0);
}
