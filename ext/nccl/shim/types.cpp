#include "types.h"

#include <array>
#include <string>

#include "failure.h"

namespace pruned::shim {
namespace {

constexpr std::array kDtypes = {
    Dtype::kInt8,     Dtype::kUint8,   Dtype::kInt32,   Dtype::kUint32,  Dtype::kInt64,        Dtype::kUint64,
    Dtype::kFloat16,  Dtype::kFloat32, Dtype::kFloat64, Dtype::kBfloat16, Dtype::kFloat8E4m3fn, Dtype::kFloat8E5m2,
};
constexpr std::array kReductions = {Reduce::kSum, Reduce::kProduct, Reduce::kMax, Reduce::kMin, Reduce::kAvg};
static_assert(kReductions.size() == kStaticOps);

template <typename Table>
auto entry(const Table& table, int number, const char* what) {
  if (number < 0 || static_cast<std::size_t>(number) >= table.size()) {
    throw Failure(kInvalidArgument, std::string("NCCL has no ") + what + " " + std::to_string(number));
  }
  return table[static_cast<std::size_t>(number)];
}

}  // namespace

Dtype dtype_of(int nccl) { return entry(kDtypes, nccl, "type of elements with the number"); }
Reduce reduce_of(int nccl) { return entry(kReductions, nccl, "reduction with the number"); }

}  // namespace pruned::shim
