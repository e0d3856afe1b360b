#include "arc_plan.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace pruned {

std::optional<Arc> arc_after(int size, std::span<const int> sandbox, int after) {
  const auto place = std::ranges::find(sandbox, after);
  if (place == sandbox.end()) {
    throw std::invalid_argument("member " + std::to_string(after) + " is no sandbox member");
  }
  const int next = place + 1 == sandbox.end() ? sandbox.front() + size : place[1];
  const int members = next - after - 1;
  return members == 0 ? std::nullopt : std::optional(Arc{size, after, members});
}

}  // namespace pruned
