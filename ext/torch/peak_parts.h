// What a peak was made of. What a block is for is learnt after the peak, from the optimizer: so each block has a number,
// the peak remembers the last number that was given out, and a block that is labelled later is added to the peak if it
// is older. One thread counts exactly; with several, blocks that come and go at the very peak may be told wrongly.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace prism {

enum class Label : std::uint8_t { parameter, gradient, optimizer, none };
constexpr std::size_t kLabels = 3;  // without none

struct Block {
  std::size_t bytes;     // that were counted; 0 for a block of PRISM's own
  std::uint64_t number;  // in the order of allocation, from 1
  Label label;
};

class PeakParts {
 public:
  std::uint64_t next_number() { return ++numbers_; }

  void begin_peak() {
    for (std::size_t i = 0; i < kLabels; ++i) at_peak_[i].store(held_[i].load());
    returned_.store(0);
    last_.store(numbers_.load());
  }

  void label(Block& block, Label label, std::size_t rounded) {
    if (block.label != Label::none) return;
    block.label = label;
    const auto i = static_cast<std::size_t>(label);
    held_[i] += rounded;
    if (block.number <= last_) at_peak_[i] += rounded;
  }

  void release(const Block& block, std::size_t rounded) {
    if (block.label != Label::none) {
      held_[static_cast<std::size_t>(block.label)] -= rounded;
    } else if (block.number <= last_) {
      returned_ += rounded;
    }
  }

  std::size_t at_peak(Label label) const { return at_peak_[static_cast<std::size_t>(label)]; }
  std::size_t returned() const { return returned_; }

 private:
  std::atomic<std::uint64_t> numbers_{0};
  std::atomic<std::uint64_t> last_{0};                         // the last number at the peak
  std::array<std::atomic<std::size_t>, kLabels> held_{};     // labelled bytes now
  std::array<std::atomic<std::size_t>, kLabels> at_peak_{};  // and at the peak
  std::atomic<std::size_t> returned_{0};                       // held at the peak, never labelled, and freed since
};

}  // namespace prism
