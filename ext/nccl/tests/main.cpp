// Runs the groups named on the command line, all of them if none is; the exit status is 1 if a check failed.

#include <algorithm>
#include <array>
#include <iostream>
#include <string>
#include <utility>

#include "check.h"
#include "tests.h"

int main(int argc, char** argv) {
  using namespace pruned::testing;
  const std::array<std::pair<std::string, void (*)()>, 10> groups{{
      {"arithmetic", test_arithmetic},
      {"fifo", test_fifo},
      {"bridge", test_bridge},
      {"members", test_members},
      {"arcs", test_arcs},
      {"tree_shapes", test_tree_shapes},
      {"trees", test_trees},
      {"tree_pace", test_tree_pace},
      {"groups", test_groups},
      {"threads", test_threads},
  }};
  for (const auto& [name, test] : groups) {
    const bool wanted = argc == 1 || std::any_of(argv + 1, argv + argc, [&](const char* arg) { return name == arg; });
    if (wanted) {
      const long before = checks;
      test();
      std::cout << name << ": " << checks - before << " checks" << std::endl;
    }
  }
  std::cout << checks << " checks, " << failures << " failures\n";
  return failures == 0 ? 0 : 1;
}
