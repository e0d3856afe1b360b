// The parties of groups on a thread each, waiting for one another as they do in processes: what ThreadSanitizer looks
// at.

#include <thread>

#include "cast.h"
#include "check.h"
#include "tests.h"

namespace pruned::testing {
namespace {

void run_on_threads(const Group& group, const std::vector<Op>& ops) {
  std::vector<std::unique_ptr<Scene>> scenes;
  for (const Op& op : ops) {
    scenes.push_back(std::make_unique<Scene>(group, op, static_cast<unsigned>(scenes.size())));
  }
  const auto cast = cast_of(group);
  std::vector<std::thread> threads;
  for (const auto& actor : cast) {
    threads.emplace_back([&group, &scenes, &actor] {
      for (const auto& scene : scenes) {
        const auto activity = actor->act(*scene);
        while (activity != nullptr && !drive(*activity, actor->ports().bell(), *group.directory)) {
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const auto& scene : scenes) {
    scene->check_outputs(group);
  }
}

}  // namespace

void test_threads() {
  for (const int size : {1, 2, 3, 5, 8, 13}) {
    for (const std::vector<int>& sandbox : sandboxes(size)) {
      const TemporaryDirectory directory;
      const Group group{.directory = std::make_shared<Directory>(directory.path()), .size = size, .sandbox = sandbox};
      std::vector<Op> ops;
      for (const std::int64_t count : {1, 70, 33}) {
        const std::vector<Op> more = all_kinds(size, count, count == 70 ? Dtype::kBfloat16 : Dtype::kFloat32);
        ops.insert(ops.end(), more.begin(), more.end());
      }
      run_on_threads(group, ops);
    }
  }
}

}  // namespace pruned::testing
