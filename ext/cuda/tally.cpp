#include "tally.h"

#include <array>
#include <atomic>

namespace residency {
namespace {

struct Kind {
  std::atomic<std::uint64_t> count{0};
  std::atomic<std::uint64_t> ns{0};
};

std::array<Kind, RESIDENCY_CALLS> kinds;

}  // namespace

void tally(residency_call kind, std::chrono::nanoseconds took) {
  ++kinds[kind].count;
  kinds[kind].ns += static_cast<std::uint64_t>(took.count());
}

}  // namespace residency

extern "C" void residency_read_calls(residency_tally* tallies) {
  for (const auto& kind : residency::kinds) {
    *tallies++ = {.count = kind.count, .ns = kind.ns};
  }
}
