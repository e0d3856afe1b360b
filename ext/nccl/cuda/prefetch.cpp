#include "prefetch.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>

namespace pruned::device {
namespace {

constexpr std::int64_t kStaging = 8 * 1024 * 1024;  // bytes of each of two buffers
constexpr std::int64_t kAlign = 256;
constexpr auto kPause = std::chrono::microseconds(50);

std::int64_t aligned(std::int64_t bytes) { return divided_up(bytes, kAlign) * kAlign; }

std::int64_t add(Reading& reading, const Part& part) {
  if (part.nbytes == 0) {
    return -1;
  }
  const std::int64_t at = reading.bytes;
  reading.pieces.push_back({part, at});
  reading.bytes += aligned(part.nbytes);
  return at;
}

std::int64_t largest(const std::vector<Reading>& readings) {
  std::int64_t most = 0;
  for (const Reading& reading : readings) {
    most = std::max(most, reading.bytes);
  }
  return most;
}

/// An open file, closed at the end.
class File {
 public:
  explicit File(const std::string& path) : path_(path), number_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (number_ < 0) {
      fail_on_file("cannot open payload", path);
    }
  }
  ~File() { close(number_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void read(std::byte* to, std::int64_t bytes, std::int64_t offset) const {
    for (std::int64_t done = 0; done < bytes;) {
      const ssize_t count = pread(number_, to + done, static_cast<std::size_t>(bytes - done), offset + done);
      if (count < 0) {
        fail_on_file("cannot read payload", path_);
      }
      if (count == 0) {
        throw Failure("payload " + path_ + " ends too early: capture again");
      }
      done += count;
    }
  }

 private:
  std::string path_;
  int number_;
};

}  // namespace

Reading reading_of(const PlannedOp& op, std::vector<std::int64_t>* offsets) {
  Reading reading;
  reading.head = add(reading, op.head);
  reading.tail = add(reading, op.tail);
  reading.final = add(reading, op.final);
  for (const Partner& partner : op.partners) {
    const std::int64_t at = add(reading, partner.payload);
    if (offsets != nullptr) {
      offsets->push_back(at);
    }
    reading.head = at >= 0 ? 0 : reading.head;  // messages are found from the region's beginning
  }
  return reading;
}

Prefetch::Prefetch(std::vector<Reading> readings, std::int64_t pool_bytes, int device, std::int64_t* shown_counts)
    : readings_(std::move(readings)),
      device_(device),
      shown_(shown_counts),
      pool_(largest(readings_) == 0 ? 0 : aligned(std::max(pool_bytes, largest(readings_)))),
      begun_(readings_.size()),
      counted_(readings_.size()) {
  const auto entries = static_cast<std::int64_t>(readings_.size()) + 1;
  room_ = device_memory(pool_.bytes());
  payloads_ = device_memory(entries * static_cast<std::int64_t>(sizeof(Payload)));
  table_ = pinned_memory(entries * static_cast<std::int64_t>(sizeof(Payload)));
  ended_ = pinned_memory(entries * 8);
  looked_ = pinned_memory(entries * 4);
  staging_ = pinned_memory(2 * kStaging);
  PRUNED_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  for (cudaEvent_t& event : copied_) {
    PRUNED_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
}

Prefetch::~Prefetch() {
  stop();
  for (std::byte* data : apart_) {
    cudaFree(data);
  }
  for (cudaEvent_t event : copied_) {
    cudaEventDestroy(event);
  }
  cudaStreamDestroy(stream_);
}

void Prefetch::start() {
  auto* table = reinterpret_cast<Payload*>(table_.get());
  for (std::size_t entry = 0; entry < readings_.size(); ++entry) {
    begun_[entry] = readings_[entry].bytes == 0;
    table[entry] = {nullptr, nullptr, nullptr, begun_[entry] ? 1U : 0U};
  }
  PRUNED_CUDA(cudaMemcpy(payloads_.get(), table, readings_.size() * sizeof(Payload), cudaMemcpyDefault));
  thread_ = std::thread([this] { run(); });
}

void Prefetch::stop() {
  stopped_ = true;
  if (thread_.joinable()) {
    thread_.join();
  }
}

std::string Prefetch::trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

void Prefetch::run() {
  try {
    PRUNED_CUDA(cudaSetDevice(device_));
    ignore_captures();
    while (!stopped_) {
      if (!advance()) {
        std::this_thread::sleep_for(kPause);
      }
    }
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    trouble_ = error.what();
  }
}

bool Prefetch::advance() {
  const bool looked = look();
  return read_ahead() || looked;
}

bool Prefetch::over(std::int64_t entry) const { return const_cast<volatile std::uint64_t*>(ended())[entry] != 0; }

bool Prefetch::read_ahead() {
  const auto count = static_cast<std::int64_t>(readings_.size());
  while (next_ < count && begun_[next_]) {
    ++next_;
  }
  pool_.give_back([&](std::int64_t entry) { return over(entry); });
  if (next_ == count) {
    return false;
  }
  const auto at = pool_.take(readings_[next_].bytes, next_);
  if (at.has_value()) {
    load(next_, room_.get() + *at);
  }
  return at.has_value();
}

/// Counts who has come for a payload, and reads what was wanted too early.
bool Prefetch::look() {
  const auto count = static_cast<std::int64_t>(readings_.size());
  bool any = false;
  while (uncounted_ < count && (counted_[uncounted_] || readings_[uncounted_].bytes == 0)) {
    ++uncounted_;
  }
  for (std::int64_t entry = uncounted_; entry < std::min(next_ + 256, count); ++entry) {
    const std::uint32_t seen = const_cast<volatile std::uint32_t*>(looked())[entry];
    if (seen == 0 || counted_[entry] || readings_[entry].bytes == 0) {
      continue;
    }
    const int kind = seen == 1 ? 0 : begun_[entry] ? 2 : 1;
    ++counts_[kind];
    counted_[entry] = any = true;
    if (shown_ != nullptr) {
      shown_[kind] = counts_[kind];
    }
    if (kind == 1) {
      void* data = nullptr;
      PRUNED_CUDA(cudaMallocAsync(&data, static_cast<std::size_t>(readings_[entry].bytes), stream_));
      apart_.push_back(static_cast<std::byte*>(data));
      load(entry, apart_.back());
    }
  }
  return any;
}

/// The addresses go after the data, and that they are there after the addresses.
void Prefetch::load(std::int64_t entry, std::byte* region) {
  begun_[entry] = true;
  const Reading& reading = readings_[entry];
  for (const Reading::Piece& piece : reading.pieces) {
    copy(piece.part, region + piece.at);
  }
  const auto at = [&](std::int64_t offset) { return offset < 0 ? nullptr : region + offset; };
  Payload& from = reinterpret_cast<Payload*>(table_.get())[entry];
  from = {at(reading.head), at(reading.tail), at(reading.final), 1};
  Payload* to = payloads() + entry;
  PRUNED_CUDA(cudaMemcpyAsync(to, &from, offsetof(Payload, ready), cudaMemcpyDefault, stream_));
  PRUNED_CUDA(cudaMemcpyAsync(&to->ready, &from.ready, sizeof from.ready, cudaMemcpyDefault, stream_));
}

void Prefetch::copy(const Part& part, std::byte* to) {
  const File file(part.path);
  for (std::int64_t done = 0; done < part.nbytes; done += kStaging) {
    const std::int64_t bytes = std::min(kStaging, part.nbytes - done);
    std::byte* staged = staging_.get() + turn_ * kStaging;
    PRUNED_CUDA(cudaEventSynchronize(copied_[turn_]));
    file.read(staged, bytes, part.offset + done);
    PRUNED_CUDA(cudaMemcpyAsync(to + done, staged, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream_));
    PRUNED_CUDA(cudaEventRecord(copied_[turn_], stream_));
    turn_ = 1 - turn_;
  }
}

}  // namespace pruned::device
