#include "sandbox_engine.h"

#include <fstream>
#include <numeric>

namespace pruned::device::testing {
namespace {

prism_device_setup setup_of(const Casting& casting, const std::string& directory) {
  prism_device_setup setup{};
  setup.directory = directory.c_str();
  setup.device = 0;
  setup.arc_device = casting.arc_device;
  setup.pool_bytes = 1 << 20;
  setup.mode = static_cast<std::int32_t>(casting.mode);
  return setup;
}

Stream new_stream() {
  cudaStream_t made = nullptr;
  PRUNED_CUDA(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  return Stream(made);
}

}  // namespace

SandboxEngine::SandboxEngine(const Casting& casting)
    : casting_(casting),
      directory_(casting.directory),
      payloads_(directory_ + "/payloads"),
      engine_(setup_of(casting, directory_)),
      stream_(new_stream()) {
  engine_.add_group("group", casting.size, casting.rank, casting.sandbox, 0);
}

SandboxEngine::~SandboxEngine() {
  engine_.abort("the test is over");
  if (group_ != nullptr) {
    group_->close();
  }
}

void SandboxEngine::plan(const Op& op, bool uneven) {
  prism_device_op planned = this->planned(op);
  planned.uneven = uneven ? 1 : 0;
  engine_.plan("group", planned);
}

void SandboxEngine::plan(const Op& op, const Brought& brought) {
  prism_device_op planned = this->planned(op);
  planned.head = written(brought.head, brought.has_head);
  planned.tail = written(brought.tail, brought.has_tail);
  planned.final = written(brought.final, brought.has_final);
  engine_.plan("group", planned);
}

prism_device_op SandboxEngine::planned(const Op& op) {
  prism_device_op planned{};
  planned.kind = static_cast<std::int32_t>(op.kind);
  planned.dtype = static_cast<std::int32_t>(op.dtype);
  planned.reduce = static_cast<std::int32_t>(op.reduce);
  planned.root = op.root;
  planned.count = op.count;
  planned.op = -1;
  planned.entry = entries_++;
  return planned;
}

/// At the end of the file of payloads.
prism_device_part SandboxEngine::written(const Bytes& bytes, bool is_there) {
  if (!is_there || bytes.empty()) {
    return {nullptr, 0, 0};
  }
  std::ofstream file(payloads_, std::ios::binary | std::ios::app);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  written_ += static_cast<std::int64_t>(bytes.size());
  return {payloads_.c_str(), written_ - static_cast<std::int64_t>(bytes.size()),
          static_cast<std::int64_t>(bytes.size())};
}

void SandboxEngine::start() {
  engine_.start();
  std::vector<int> ranks(static_cast<std::size_t>(casting_.size));
  std::iota(ranks.begin(), ranks.end(), 0);
  engine_.identify(Id{1}, "group", ranks);
  group_ = engine_.communicator(Id{1}, casting_.size, casting_.rank);
}

Verdict SandboxEngine::launch(const Op& op, std::byte* input, std::byte* output) {
  const std::int64_t count = op.kind == Kind::kReduceScatter ? op.count / op.size : op.count;
  return group_->launch({.kind = op.kind,
                         .dtype = op.dtype,
                         .reduce = op.reduce,
                         .root = op.root,
                         .count = count,
                         .input = input,
                         .output = output},
                        stream_.get());
}

void SandboxEngine::finish() { PRUNED_CUDA(cudaStreamSynchronize(stream_.get())); }

}  // namespace pruned::device::testing
