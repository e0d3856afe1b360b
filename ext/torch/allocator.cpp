// Counts the bytes that CPU tensors of this process hold, now and at most: exact, and rounded as CUDA's caching
// allocator rounds, so that a rank's peak on a CPU says what the same rank would ask of a GPU.
//
// Each block carries its size in a header before the data, so that freeing needs no table and no lock. The counters
// are atomics and not guarded by a mutex because ranks fork (data loader workers do) while autograd threads allocate.

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>
#include <pybind11/pybind11.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace {

constexpr std::size_t kHeader = 64;      // c10's alignment of CPU data, which the data behind the header must keep
constexpr std::size_t kCudaBlock = 512;  // CUDA's caching allocator hands out multiples of this (its kMinBlockSize)
constexpr std::uint8_t kPriority = 255;  // the highest: no later registration takes the place of this allocator

constexpr std::size_t round_up(std::size_t bytes) { return (bytes + kCudaBlock - 1) / kCudaBlock * kCudaBlock; }

class Gauge {
 public:
  void add(std::size_t bytes) { raise_peak(current_.fetch_add(bytes) + bytes); }
  void subtract(std::size_t bytes) { current_.fetch_sub(bytes); }
  std::size_t current() const { return current_.load(); }
  std::size_t peak() const { return peak_.load(); }

  // Zero first and then raise: bytes that another thread adds in between are counted by whichever of the two is later.
  void reset_peak() {
    peak_.store(0);
    raise_peak(current_.load());
  }

 private:
  void raise_peak(std::size_t value) {
    std::size_t seen = peak_.load();
    while (seen < value && !peak_.compare_exchange_weak(seen, value)) {
    }
  }

  std::atomic<std::size_t> current_{0};
  std::atomic<std::size_t> peak_{0};
};

Gauge exact;
Gauge rounded;

void release(void* data) {
  if (data == nullptr) return;
  std::byte* block = static_cast<std::byte*>(data) - kHeader;
  const std::size_t bytes = *std::launder(reinterpret_cast<std::size_t*>(block));
  c10::profiledCPUMemoryReporter().Delete(data);
  c10::free_cpu(block);
  exact.subtract(bytes);
  rounded.subtract(round_up(bytes));
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, nullptr, &release, cpu};
    TORCH_CHECK(bytes + kHeader > bytes, "cannot allocate ", bytes, " bytes");
    auto* block = static_cast<std::byte*>(c10::alloc_cpu(bytes + kHeader));  // throws when there is no memory
    ::new (block) std::size_t(bytes);
    void* data = block + kHeader;
    exact.add(bytes);
    rounded.add(round_up(bytes));
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

pybind11::tuple stats() {
  return pybind11::make_tuple(exact.current(), exact.peak(), rounded.current(), rounded.peak());
}

void reset_peak() {
  exact.reset_peak();
  rounded.reset_peak();
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "A CPU allocator for torch that counts the bytes which tensors hold in this process.";
  m.def("install", &install, "Count every CPU block allocated from now on; earlier blocks keep their own deleter.");
  m.def("stats", &stats, "(current, peak, current_rounded, peak_rounded) in bytes; rounded is to 512 a block.");
  m.def("reset_peak", &reset_peak, "Let both peaks start again from what is held now.");
}
