// A sandbox process that is lost: whoever waits for it ends once the directory is called off, and says why.

#include <thread>

#include "../../directory.h"
#include "../../tests/check.h"
#include "sandbox_engine.h"
#include "tests.h"

namespace pruned::device::testing {
namespace {

const std::string kReason = "rank 1 was lost (killed by SIGKILL)";
const Op kSum{.kind = Kind::kAllReduce, .dtype = Dtype::kFloat32, .reduce = Reduce::kSum, .size = 3, .count = 1000};

Casting casting(const std::filesystem::path& directory, int rank) {
  return {.directory = directory, .size = 3, .rank = rank, .sandbox = {0, 1}};
}

void call_off(const std::filesystem::path& directory) { Directory(directory).abort(kReason); }

/// It never gets as far as to open its memory to others.
void check_before_it_came() {
  const pruned::testing::TemporaryDirectory folder;
  SandboxEngine engine(casting(folder.path(), 0));
  engine.plan(kSum);
  std::thread loses([&] { call_off(folder.path()); });
  std::string told;
  try {
    engine.start();
  } catch (const Failure& failure) {
    told = failure.what();
  }
  loses.join();
  CHECK(told == kReason, "the start ends with: " + told);
  CHECK(engine.state().kind == Verdict::kAborted && engine.state().text == kReason, "and so it stays");
}

/// It does not come to an operation in which the other's kernel waits.
void check_in_an_operation() {
  const pruned::testing::TemporaryDirectory folder;
  SandboxEngine waits(casting(folder.path(), 0)), lost(casting(folder.path(), 1));
  std::vector<std::thread> starts;
  for (SandboxEngine* engine : {&waits, &lost}) {
    engine->plan(kSum);
    starts.emplace_back([engine] { engine->start(); });
  }
  for (std::thread& start : starts) {
    start.join();
  }
  Bytes data(4000);
  CHECK(waits.launch(kSum, data.data(), data.data()) == Verdict::kFine, "it is launched");
  call_off(folder.path());
  waits.finish();
  CHECK(waits.state().kind == Verdict::kAborted && waits.state().text == kReason, waits.state().text);
  CHECK(waits.launch(kSum, data.data(), data.data()) == Verdict::kAborted, "nothing is launched any more");
}

}  // namespace

void test_endings() {
  check_before_it_came();
  check_in_an_operation();
}

}  // namespace pruned::device::testing
