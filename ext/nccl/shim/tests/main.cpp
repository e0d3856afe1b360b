// The shim preloaded before a NCCL and over an engine that are both fakes. The one argument is the shim's path.

#include <dlfcn.h>

#include <cstdlib>
#include <iostream>
#include <mutex>
#include <utility>

#include "nccl.h"

namespace {

std::mutex guard;
std::vector<std::string> lines;
int answer = 0;

}  // namespace

extern "C" __attribute__((visibility("default"))) void test_told(const char* line) {
  const std::lock_guard lock(guard);
  lines.emplace_back(line);
}

extern "C" __attribute__((visibility("default"))) int test_result() { return answer; }

namespace pruned::shim::testing {

using pruned::testing::fail;
using pruned::testing::pass;

std::vector<std::string> told() {
  const std::lock_guard lock(guard);
  return std::exchange(lines, {});
}

void real_answers(int result) { answer = result; }

void* function(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) {
    std::cerr << "nobody has " << name << "\n";
    std::exit(1);
  }
  return found;
}

UniqueId id(char first) { return {.bytes = {first}}; }

void engine_knows(const UniqueId& id, int size, int rank) {
  call<void(const void*, int, int)>("fake_engine_knows", id.bytes, size, rank);
}

Comm ours(char first) {
  Comm comm = nullptr;
  engine_knows(id(first), 4, 1);
  equal(call<int(Comm*, int, UniqueId, int)>("ncclCommInitRank", &comm, 4, id(first), 1), kSuccess);
  return comm;
}

void same(const std::vector<std::string>& found, const std::vector<std::string>& wanted, std::source_location where) {
  std::string text = "told:";
  for (const std::string& line : found) {
    text += "\n  " + line;
  }
  text += "\n instead of:";
  for (const std::string& line : wanted) {
    text += "\n  " + line;
  }
  found == wanted ? pass() : fail(text, where);
}

void equal(long found, long wanted, std::source_location where) {
  found == wanted ? pass() : fail(std::to_string(found) + " is not " + std::to_string(wanted), where);
}

}  // namespace pruned::shim::testing

int main(int, char** argv) {
  using namespace pruned::shim::testing;
  test_passing(argv[1]);
  test_operations();
  test_lives();
  std::cout << pruned::testing::checks << " checks, " << pruned::testing::failures << " failures\n";
  return pruned::testing::failures == 0 ? 0 : 1;
}
