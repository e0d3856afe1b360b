#include "session.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <numeric>

namespace pruned::device::on_device {

SharedWords::SharedWords(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR);
  struct stat status {};
  if (file < 0 || fstat(file, &status) != 0) {
    fail_on_file("cannot open", path);
  }
  bytes_ = static_cast<std::size_t>(status.st_size);
  words_ = static_cast<std::int64_t*>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  close(file);
}

SharedWords::~SharedWords() { munmap(words_, bytes_); }

Session::Session(const std::string& directory, int size, int rank, std::vector<int> sandbox, int mode,
                 std::int64_t pool_bytes, int channels, const std::string& board, const std::string& releases,
                 std::int64_t ops)
    : directory_(directory),
      payloads_(directory + "/payloads" + std::to_string(rank)),
      file_(payloads_, std::ios::binary),
      size_(size),
      rank_(rank),
      shown_(!board.empty()) {
  prism_device_setup setup{};
  setup.directory = directory_.c_str();
  setup.device = setup.arc_device = -1;
  if (const char* other = std::getenv("ARC_DEVICE"); other != nullptr) {
    setup.arc_device = std::atoi(other);
  }
  setup.board = board.empty() ? nullptr : board.c_str();
  setup.releases = releases.empty() ? nullptr : releases.c_str();
  setup.sandbox_ranks = 1;
  setup.ops = ops;
  setup.pool_bytes = pool_bytes;
  setup.mode = mode;
  setup.channels = channels;
  expect(prism_device_begin(&setup));
  expect(prism_device_group("group", size, rank, sandbox.data(), static_cast<int>(sandbox.size()), 0));
}

Session::~Session() {
  if (group_ != nullptr) {
    group_->close();
  }
  prism_device_end();
}

prism_device_part Session::part(const std::vector<std::byte>* bytes) {
  if (bytes == nullptr || bytes->empty()) {
    return {nullptr, 0, 0};
  }
  const prism_device_part result{payloads_.c_str(), written_, static_cast<std::int64_t>(bytes->size())};
  file_.write(reinterpret_cast<const char*>(bytes->data()), static_cast<std::streamsize>(bytes->size()));
  written_ += result.nbytes;
  return result;
}

void Session::plan(prism_device_op op) {
  op.entry = entries_++;
  op.op = shown_ ? op.op : -1;
  expect(prism_device_planned("group", &op));
}

void Session::start() {
  file_.close();
  expect(prism_device_start());
  std::vector<int> ranks(static_cast<std::size_t>(size_));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::uint8_t id[128] = {1};
  expect(prism_device_identify(id, "group", ranks.data(), size_));
  group_ = group_of(id, size_, rank_);
}

void Session::finish() {
  PRUNED_CUDA(cudaDeviceSynchronize());
  prism_device_report report;
  expect(prism_device_state(&report));
  if (report.kind != PRISM_DEVICE_FINE) {
    throw Failure(report.text);
  }
}

}  // namespace pruned::device::on_device
