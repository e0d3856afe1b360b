// Sums in ring order, from files to a file: ((x0 + x1) + x2) + ..., each step rounded to the elements' type.
//
// The rows are the members' inputs, where they lie in the payload store; prism.gpu.fold says in which order they are
// added. Work goes in blocks that stay in the second-level cache, so however many rows there are, each is read once and
// the result is written once, at the speed of a copy.

#include <ATen/Dispatch_v2.h>
#include <torch/extension.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

namespace {

constexpr int64_t kBlockBytes = 256 * 1024;  // a result block and an input block fit a second-level cache

using Row = std::tuple<int, int64_t>;             // file descriptor, offset of the row's first byte
using Piece = std::tuple<int64_t, int64_t, int64_t>;  // first element, end, owner: the row that is added last

void transfer(bool reads, int file, char* data, int64_t bytes, int64_t offset) {
  while (bytes > 0) {
    const ssize_t moved = reads ? pread(file, data, bytes, offset) : pwrite(file, data, bytes, offset);
    if (moved < 0 && errno == EINTR) {
      continue;
    }
    TORCH_CHECK(moved > 0, "cannot ", reads ? "read" : "write", " a payload: ",
                moved == 0 ? "the file ends inside it" : std::strerror(errno));
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
void fold_rows(
    const std::vector<Row>& rows, const Row& out, const std::vector<Piece>& pieces, double factor) {
  constexpr auto itemsize = static_cast<int64_t>(sizeof(T));
  constexpr int64_t block = kBlockBytes / itemsize;
  const auto size = static_cast<int64_t>(rows.size());
  std::vector<char> total_bytes(kBlockBytes), input_bytes(kBlockBytes);
  auto* total = reinterpret_cast<T*>(total_bytes.data());
  auto* input = reinterpret_cast<T*>(input_bytes.data());
  const auto read_row = [&](int64_t row, T* into, int64_t start, int64_t count) {
    const auto& [file, offset] = rows[row];
    transfer(true, file, reinterpret_cast<char*>(into), count * itemsize, offset + start * itemsize);
    if (factor != 1.0) {
      scale(into, count, factor);
    }
  };
  for (const auto& [first, end, owner] : pieces) {
    for (int64_t start = first; start < end; start += block) {
      const int64_t count = std::min(block, end - start);
      read_row((owner + 1) % size, total, start, count);
      for (int64_t step = 2; step <= size; ++step) {
        read_row((owner + step) % size, input, start, count);
        for (int64_t i = 0; i < count; ++i) {
          total[i] = combine<T, R>(total[i], input[i]);
        }
      }
      transfer(false, std::get<0>(out), total_bytes.data(), count * itemsize, std::get<1>(out) + start * itemsize);
    }
  }
}

template <class T>
void fold_as(
    const std::vector<Row>& rows, const Row& out, const std::vector<Piece>& pieces, const std::string& reduce,
    double factor) {
  if (reduce == "sum") {
    fold_rows<T, Reduce::kSum>(rows, out, pieces, factor);
  } else if (reduce == "product") {
    fold_rows<T, Reduce::kProduct>(rows, out, pieces, factor);
  } else if (reduce == "min") {
    fold_rows<T, Reduce::kMin>(rows, out, pieces, factor);
  } else if (reduce == "max") {
    fold_rows<T, Reduce::kMax>(rows, out, pieces, factor);
  } else {
    TORCH_CHECK(false, "no such reduction here: ", reduce);
  }
}

void fold(
    const std::vector<Row>& rows, const Row& out, const std::vector<Piece>& pieces, at::ScalarType dtype,
    const std::string& reduce, double factor) {
  AT_DISPATCH_V2(
      dtype, "prism_fold", AT_WRAP([&] { fold_as<scalar_t>(rows, out, pieces, reduce, factor); }),
      AT_EXPAND(AT_ALL_TYPES), at::kHalf, at::kBFloat16, at::kBool);
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def(
      "fold", &fold, py::call_guard<py::gil_scoped_release>(), py::arg("rows"), py::arg("out"), py::arg("pieces"),
      py::arg("dtype"), py::arg("reduce"), py::arg("factor") = 1.0);
}
