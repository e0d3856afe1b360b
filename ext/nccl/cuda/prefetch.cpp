#include "prefetch.h"

#include <algorithm>
#include <chrono>

#include "check.h"
#include "job.h"
#include "seen.h"

namespace pruned::device {
namespace {

constexpr auto kPause = std::chrono::microseconds(50);
constexpr auto kPauseOfDetour = std::chrono::milliseconds(5);
// Operations of one group come in order, those of several on streams of their own do not. Nearly all that are wanted
// too early are near; the rest is gone through some at a time, so that a look costs the same in a program of a million.
constexpr std::int64_t kNear = 256;
constexpr std::int64_t kSweep = 1024;

std::int64_t largest(const std::vector<Reading>& readings) {
  std::int64_t most = 0;
  for (const Reading& reading : readings) {
    most = std::max(most, reading.bytes);
  }
  return most;
}

}  // namespace

Prefetch::Prefetch(std::vector<Reading> readings, std::int64_t pool_bytes, int device, int readers,
                   std::int64_t* shown_counts)
    : readings_(std::move(readings)),
      device_(device),
      shown_(shown_counts),
      pool_(largest(readings_) == 0 ? 0 : std::max(pool_bytes, largest(readings_))),
      queue_(kPieceBytes),
      loads_(readings_.size()),
      counted_(readings_.size()) {
  room_ = device_memory(pool_.bytes());
  payloads_ = device_memory((entries() + 1) * static_cast<std::int64_t>(sizeof(Payload)));
  table_ = pinned_memory((entries() + 1) * static_cast<std::int64_t>(sizeof(Payload)));
  ended_ = pinned_memory((entries() + 1) * 8);
  looked_ = pinned_memory((entries() + 1) * 4);
  cudaStream_t stream = nullptr;
  PRUNED_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  stream_.reset(stream);
  if (pool_.bytes() == 0) {
    return;
  }
  detour_ = std::make_unique<Detour>(readings_, ended(), looked());
  for (int i = 0; i < readers; ++i) {
    readers_.push_back(
        std::make_unique<PayloadReader>(queue_, stream, calls_, [this](const Load& load) { publish(load); }));
  }
}

Prefetch::~Prefetch() {
  stop();
  cudaStreamSynchronize(stream_.get());
  for (const Apart& apart : apart_) {
    cudaFree(apart.data);
  }
}

void Prefetch::start() {
  auto* table = reinterpret_cast<Payload*>(table_.get());
  for (std::int64_t entry = 0; entry < entries(); ++entry) {
    loads_[entry].reading = &readings_[entry];
    loads_[entry].entry = entry;
    table[entry] = {nullptr, nullptr, nullptr, readings_[entry].bytes == 0 ? 1U : 0U};
  }
  PRUNED_CUDA(cudaMemcpy(payloads_.get(), table, readings_.size() * sizeof(Payload), cudaMemcpyDefault));
  for (const auto& reader : readers_) {
    threads_.emplace_back([this, &reader] { run_with_device([&] { reader->run(); }); });
  }
  threads_.emplace_back([this] { run_with_device([this] { keep_ahead(); }); });
  if (detour_ != nullptr) {
    threads_.emplace_back([this] { run([this] { keep_detour(); }); });
  }
}

void Prefetch::stop() {
  stopped_ = true;
  queue_.close();
  for (std::thread& thread : threads_) {
    thread.join();
  }
  threads_.clear();
}

std::string Prefetch::trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

/// What a thread does. If it fails, all end.
void Prefetch::run(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    {
      const std::lock_guard lock(mutex_);
      trouble_ = trouble_.empty() ? error.what() : trouble_;
    }
    stopped_ = true;
    queue_.close();
  }
}

void Prefetch::run_with_device(const std::function<void()>& work) {
  run([&] {
    {
      const DriverCalls::Call call(calls_);
      PRUNED_CUDA(cudaSetDevice(device_));
      ignore_captures();
    }
    work();
  });
}

/// Calls nothing of CUDA, or it would stand still with the others.
void Prefetch::keep_detour() {
  while (!stopped_) {
    if (!calls_.stand_still() || !detour_->bring()) {
      std::this_thread::sleep_for(kPauseOfDetour);
    }
  }
}

void Prefetch::keep_ahead() {
  while (!stopped_) {
    give_back();
    const bool looked = look();
    if (!read_ahead() && !looked) {
      std::this_thread::sleep_for(kPause);
    }
  }
}

bool Prefetch::read_ahead() {
  while (next_ < entries() && (readings_[next_].bytes == 0 || loads_[next_].region != nullptr || came_round(next_))) {
    ++next_;
  }
  if (next_ == entries()) {
    return false;
  }
  const auto at = pool_.take(readings_[next_].bytes, next_);
  if (at.has_value()) {
    loads_[next_].region = room_.get() + *at;
    queue_.add(loads_[next_]);
  }
  return at.has_value();
}

void Prefetch::give_back() {
  const auto is_over = [&](std::int64_t entry) { return over(entry); };
  pool_.give_back(is_over);
  std::erase_if(apart_, [&](const Apart& apart) {
    if (!over(apart.entry)) {
      return false;
    }
    const DriverCalls::Call call(calls_);
    PRUNED_CUDA(cudaFreeAsync(apart.data, stream_.get()));
    return true;
  });
}

/// Nobody will read its region or write to it any more: an operation may end that has not looked at its payload.
bool Prefetch::over(std::int64_t entry) const { return seen(ended()[entry]) != 0 && loads_[entry].left == 0; }

/// Counts who has come for a payload, and hurries those on that are waited for; whether somebody came.
bool Prefetch::look() {
  while (uncounted_ < entries() && (counted_[uncounted_] || readings_[uncounted_].bytes == 0)) {
    ++uncounted_;
  }
  const std::int64_t near = std::min(next_ + kNear, entries());
  const std::int64_t first = swept_ < near || swept_ == entries() ? near : swept_;
  swept_ = std::min(first + kSweep, entries());
  const bool any = look_from(uncounted_, near);
  return look_from(first, swept_) || any;
}

bool Prefetch::look_from(std::int64_t first, std::int64_t last) {
  bool any = false;
  for (std::int64_t entry = first; entry < last; ++entry) {
    if (counted_[entry] || readings_[entry].bytes == 0) {
      continue;
    }
    const bool is_ended = seen(ended()[entry]) != 0;
    const std::uint32_t how = seen(looked()[entry]);
    counted_[entry] = how != 0 || is_ended;
    if (how != 0) {
      const Outcome found = outcome(entry, how == 1);
      if (shown_ != nullptr) {
        shown_[found] = counts_[found] + 1;
      }
      ++counts_[found];
      any = true;
    }
  }
  return any;
}

Prefetch::Outcome Prefetch::outcome(std::int64_t entry, bool was_there) {
  Load& load = loads_[entry];
  if (was_there) {
    return kHit;
  }
  const bool has_room = load.region != nullptr;
  if (came_round(entry)) {
    return has_room ? kStall : kMiss;
  }
  if (!has_room) {
    read_apart(load);
  }
  const bool had_begun = !queue_.hurry(load);
  return has_room && had_begun ? kStall : kMiss;
}

/// Whether nobody waits for it any more, though it has not been read as others are.
bool Prefetch::came_round(std::int64_t entry) const { return detour_ != nullptr && detour_->has(entry); }

void Prefetch::read_apart(Load& load) {
  void* data = nullptr;
  {
    const DriverCalls::Call call(calls_);
    PRUNED_CUDA(cudaMallocAsync(&data, static_cast<std::size_t>(load.reading->bytes), stream_.get()));
  }
  apart_.push_back({load.entry, static_cast<std::byte*>(data)});
  load.region = apart_.back().data;
  queue_.add(load);
}

/// The addresses go after the data, and that they are there after the addresses.
void Prefetch::publish(const Load& load) {
  const auto at = [&](std::int64_t offset) { return offset < 0 ? nullptr : load.region + offset; };
  Payload& from = reinterpret_cast<Payload*>(table_.get())[load.entry];
  from = {at(load.reading->head), at(load.reading->tail), at(load.reading->final), 1};
  Payload* to = payloads() + load.entry;
  const DriverCalls::Call call(calls_);
  PRUNED_CUDA(cudaMemcpyAsync(to, &from, offsetof(Payload, ready), cudaMemcpyDefault, stream_.get()));
  PRUNED_CUDA(cudaMemcpyAsync(&to->ready, &from.ready, sizeof from.ready, cudaMemcpyDefault, stream_.get()));
}

}  // namespace pruned::device
