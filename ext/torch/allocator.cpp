// Counts the bytes that CPU tensors of this process hold, now and at most: exact, and rounded as CUDA's caching
// allocator rounds, so that a rank's peak on a CPU says what the same rank would ask of a GPU. The rounded bytes may be
// limited, as the memory of a GPU is: what does not fit is refused with the error that torch raises there.
//
// Each block is described in a header before the data, so that freeing needs no table and no lock. The counters are
// atomics and not guarded by a mutex because ranks fork (data loader workers do) while autograd threads allocate.

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "gauge.h"
#include "peak_parts.h"

namespace {

using prism::Block;
using prism::Gauge;
using prism::Label;
using prism::PeakParts;

constexpr std::size_t kHeader = 64;      // c10's alignment of CPU data, which the data behind the header must keep
constexpr std::size_t kCudaBlock = 512;  // CUDA's caching allocator hands out multiples of this (its kMinBlockSize)
constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
constexpr std::uint8_t kPriority = 255;  // the highest: no later registration takes the place of this allocator

static_assert(sizeof(Block) <= kHeader);

constexpr std::size_t round_up(std::size_t bytes) { return (bytes + kCudaBlock - 1) / kCudaBlock * kCudaBlock; }

Gauge exact;
Gauge rounded;
PeakParts parts;
std::atomic<std::size_t> limit{kNoLimit};
thread_local bool counts = true;  // false while PRISM itself works on this thread

std::string size_text(std::size_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return std::to_string(bytes) + " bytes";
  double amount = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; amount >= 1024 && unit + 1 < std::size(kUnits); ++unit) amount /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, "%.2f %s", amount, kUnits[unit]);
  return text;
}

// Takes a block into the count and gives it its number; raises what torch raises on a GPU that has no more room.
std::uint64_t admit(std::size_t bytes) {
  const std::uint64_t number = parts.next_number();
  const std::size_t capacity = limit.load();
  bool is_peak = false;
  if (!rounded.add_within(round_up(bytes), capacity, is_peak)) {
    const std::size_t held = rounded.current();
    TORCH_CHECK_WITH(OutOfMemoryError, false, "out of memory. Tried to allocate ", size_text(bytes),
                     ". The device has a total capacity of ", size_text(capacity), " of which ",
                     size_text(held < capacity ? capacity - held : 0), " is free and ", size_text(held), " is in use.");
  }
  exact.add(bytes);
  if (is_peak) parts.begin_peak();
  return number;
}

void dismiss(const Block& block) {
  exact.subtract(block.bytes);
  rounded.subtract(round_up(block.bytes));
  parts.release(block, round_up(block.bytes));
}

Block& header_of(void* data) {
  return *std::launder(reinterpret_cast<Block*>(static_cast<std::byte*>(data) - kHeader));
}

void release(void* data) {
  if (data == nullptr) return;
  Block& header = header_of(data);
  dismiss(header);
  c10::profiledCPUMemoryReporter().Delete(data);
  c10::free_cpu(&header);
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, nullptr, &release, cpu};
    TORCH_CHECK(bytes < kNoLimit - kCudaBlock, "cannot allocate ", bytes, " bytes");
    const Block block{counts ? bytes : 0, counts ? admit(bytes) : 0, Label::none};
    std::byte* memory = nullptr;
    try {
      memory = static_cast<std::byte*>(c10::alloc_cpu(bytes + kHeader));
    } catch (...) {  // the host has no memory
      dismiss(block);
      throw;
    }
    ::new (memory) Block(block);
    void* data = memory + kHeader;
    c10::profiledCPUMemoryReporter().New(data, bytes);
    return {data, data, &release, cpu};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
};

void install() {
  // Never destroyed: threads of torch still allocate while the process exits.
  static CountingAllocator* const allocator = std::make_unique<CountingAllocator>().release();
  c10::SetCPUAllocator(allocator, kPriority);
  TORCH_CHECK(c10::GetCPUAllocator() == allocator, "another CPU allocator holds the highest priority");
}

void set_limit(std::size_t bytes) { limit = bytes; }

// Whether blocks that this thread allocates are counted from now on; what it was before.
bool count_here(bool wanted) {
  const bool before = counts;
  counts = wanted;
  return before;
}

pybind11::tuple stats() {
  return pybind11::make_tuple(exact.current(), exact.peak(), rounded.current(), rounded.peak());
}

void reset_peak() {
  exact.reset_peak();
  rounded.reset_peak();
  parts.begin_peak();
}

std::size_t lap() { return rounded.lap(); }

void label(const std::vector<at::Tensor>& tensors, int wanted) {
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || !tensor.has_storage() || !tensor.device().is_cpu()) continue;
    const at::DataPtr& data = tensor.storage().data_ptr();
    if (data.get() == nullptr || data.get_deleter() != &release) continue;  // another allocator's block
    Block& block = header_of(data.get_context());
    parts.label(block, static_cast<Label>(wanted), round_up(block.bytes));
  }
}

pybind11::tuple peak_parts() {
  return pybind11::make_tuple(parts.at_peak(Label::parameter), parts.at_peak(Label::gradient),
                              parts.at_peak(Label::optimizer), parts.returned());
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "A CPU allocator for torch that counts and limits the bytes which tensors hold in this process.";
  m.def("install", &install, "Count every CPU block allocated from now on; earlier blocks keep their own deleter.");
  m.def("set_limit", &set_limit, "Refuse with torch.OutOfMemoryError what would make current_rounded more than this.");
  m.def("count_here", &count_here, "Whether this thread's new blocks are counted from now on; gives what was before.");
  m.def("stats", &stats, "(current, peak, current_rounded, peak_rounded) in bytes; rounded is to 512 a block.");
  m.def("reset_peak", &reset_peak, "Let both peaks start again from what is held now.");
  m.def("lap", &lap, "The most rounded bytes that were held since the last lap.");
  m.def("label", &label, "Say what the blocks of these tensors are: 0 parameters, 1 gradients, 2 optimizer state.");
  m.def("peak_parts", &peak_parts,
        "(parameters, gradients, optimizer, returned) in rounded bytes of the peak; returned: unlabelled, freed since.");
}
