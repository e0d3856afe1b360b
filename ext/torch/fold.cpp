// Sums in ring order, at memory speed: out = ((x0 + x1) + x2) + ..., each step rounded to the tensors' type.
//
// The rows are the members' inputs in the order of the fold; prism.gpu.fold decides that order, here it is only done.
// Work goes in blocks that stay in the first-level cache, so that however many rows there are, each is read once and
// the result is written once.

#include <ATen/Dispatch_v2.h>
#include <torch/extension.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace {

constexpr int64_t kBlockBytes = 8192;  // a result block and one input block fit any first-level cache

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

template <class T>
struct Sum {
  T operator()(T a, T b) const {
    if constexpr (std::is_same_v<T, bool>) {
      return a || b;
    } else {
      return static_cast<T>(a + b);
    }
  }
};

template <class T>
struct Product {
  T operator()(T a, T b) const {
    if constexpr (std::is_same_v<T, bool>) {
      return a && b;
    } else {
      return static_cast<T>(a * b);
    }
  }
};

template <class T>
struct Minimum {
  T operator()(T a, T b) const { return is_nan(a) || (!is_nan(b) && a < b) ? a : b; }
};

template <class T>
struct Maximum {
  T operator()(T a, T b) const { return is_nan(a) || (!is_nan(b) && b < a) ? a : b; }
};

template <class T, class Combine>
void combine_rows(T* out, const std::vector<const T*>& rows, int64_t count, Combine combine) {
  const int64_t block = kBlockBytes / static_cast<int64_t>(sizeof(T));
  for (int64_t start = 0; start < count; start += block) {
    const int64_t stop = std::min(start + block, count);
    std::copy(rows[0] + start, rows[0] + stop, out + start);
    for (std::size_t row = 1; row < rows.size(); ++row) {
      const T* in = rows[row];
      for (int64_t i = start; i < stop; ++i) {
        out[i] = combine(out[i], in[i]);
      }
    }
  }
}

void fold(const at::Tensor& out, const std::vector<at::Tensor>& rows, const std::string& reduce) {
  AT_DISPATCH_V2(
      out.scalar_type(), "prism_fold", AT_WRAP([&] {
        std::vector<const scalar_t*> inputs;
        inputs.reserve(rows.size());
        for (const auto& row : rows) {
          TORCH_CHECK(row.numel() == out.numel() && row.scalar_type() == out.scalar_type(), "rows must be like out");
          inputs.push_back(row.const_data_ptr<scalar_t>());
        }
        auto* target = out.mutable_data_ptr<scalar_t>();
        if (reduce == "sum") {
          combine_rows(target, inputs, out.numel(), Sum<scalar_t>());
        } else if (reduce == "product") {
          combine_rows(target, inputs, out.numel(), Product<scalar_t>());
        } else if (reduce == "min") {
          combine_rows(target, inputs, out.numel(), Minimum<scalar_t>());
        } else if (reduce == "max") {
          combine_rows(target, inputs, out.numel(), Maximum<scalar_t>());
        } else {
          TORCH_CHECK(false, "no such reduction here: ", reduce);
        }
      }),
      AT_EXPAND(AT_ALL_TYPES), at::kHalf, at::kBFloat16, at::kBool);
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("fold", &fold, py::call_guard<py::gil_scoped_release>(), py::arg("out"), py::arg("rows"), py::arg("reduce"));
}
