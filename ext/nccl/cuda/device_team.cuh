// A team that is a CTA: 512 threads that work, and a warp that waits and publishes beside them, as NCCL's CTAs have.
//
// While the workers are at one step, the warp publishes the step before and looks for what the next one needs, so that
// neither costs them time. Barrier 1 begins a step, for all. Barrier 2 ends it: the workers arrive and go on, the warp
// waits, before it lets the next one begin. What is to be published is held back until then; but before the warp waits
// for others, who may wait for it, it publishes what there is.

#pragma once

#include "moves.h"

namespace pruned::device {

constexpr int kWorkers = 512;
constexpr int kThreads = kWorkers + 32;

/// What the threads of a CTA share.
struct TeamMemory {
  Move moves[kBatch];
};

class DeviceTeam {
 public:
  static constexpr int kCount = kWorkers;

  /// `offset`: from the device's timer to CLOCK_MONOTONIC. `system`: whether others are on another device.
  __device__ DeviceTeam(TeamMemory& memory, const volatile std::uint32_t* aborted, std::int64_t offset, bool system)
      : memory_(memory), aborted_(aborted), offset_(offset), system_(system) {}

  __device__ bool waits() const { return threadIdx.x >= kWorkers; }
  __device__ bool leads() const { return threadIdx.x == kWorkers; }
  __device__ int index() const { return waits() ? 1 << 30 : static_cast<int>(threadIdx.x); }
  __device__ bool stopped() const { return stopped_; }

  __device__ std::uint64_t seen(const std::uint64_t* count) const { return first_of(load(count)); }
  __device__ void spin(Watch& watch, std::uint64_t target) {
    if (watch.seen < target) {
      watch.seen = seen(watch.count);
    }
    for (unsigned turn = 1; watch.seen < target && !stopped_; ++turn) {
      settle();
      watch.seen = seen(watch.count);
      look(turn);
    }
  }
  __device__ void spin(Watch& one, std::uint64_t target, Watch& other, std::uint64_t other_target) {
    if (one.seen < target || other.seen < other_target) {
      const std::uint64_t first = load(one.count), second = load(other.count);  // on their way at one time
      one.seen = first_of(first);
      other.seen = first_of(second);
    }
    spin(one, target);
    spin(other, other_target);
  }

  __device__ std::int64_t now() const {
    std::int64_t time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time + offset_;
  }
  __device__ void wait_until(std::int64_t time) {
    for (unsigned turn = 1; first_of(now() < time ? 1 : 0) != 0 && !stopped_; ++turn) {
      settle();
      look(turn);
    }
  }
  __device__ void look(unsigned turn) {
    if (turn % 1024 == 0) {
      const std::uint64_t aborted = *aborted_;
      stopped_ = stopped_ || (waits() ? first_of(aborted) : aborted) != 0;
    }
  }

  __device__ bool meet() {
    if (holds_ && waits()) {
      end_step();
    }
    __syncwarp();
    // Who is stopped tells all.
    unsigned stopped = 0;
    asm volatile(
        "{\n .reg .pred any, own;\n setp.ne.u32 own, %1, 0;\n bar.red.or.pred any, 1, %2, own;\n"
        " selp.u32 %0, 1, 0, any;\n}"
        : "=r"(stopped)
        : "r"(stopped_ ? 1U : 0U), "n"(kThreads)
        : "memory");
    stopped_ = stopped != 0;
    if (waits()) {
      publish();
    }
    return !stopped_;
  }

  __device__ bool post(const Notes& notes) {
    if (waits()) {
      held_ = notes;
      holds_ = true;
    } else {
      asm volatile("bar.arrive 2, %0;" ::"n"(kThreads) : "memory");
    }
    return true;
  }

  __device__ void gather() {
    settle();
    __syncthreads();
  }
  __device__ Move* moves() { return memory_.moves; }

  /// The warp: publishes what is held back.
  __device__ void settle() {
    if (holds_ && waits()) {
      end_step();
      publish();
    }
  }

  __device__ std::uint64_t load(const std::uint64_t* count) const {
    std::uint64_t value;
    if (system_) {
      asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(count) : "memory");
    } else {
      asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(value) : "l"(count) : "memory");
    }
    return value;
  }
  /// A word that the host writes.
  __device__ static std::int64_t load_shown(const std::int64_t* word) {
    std::int64_t value;
    asm volatile("ld.acquire.sys.s64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return static_cast<std::int64_t>(first_of(static_cast<std::uint64_t>(value)));
  }
  __device__ static unsigned long long add(std::uint64_t* cell, std::uint64_t amount) {
    return atomicAdd_system(reinterpret_cast<unsigned long long*>(cell), static_cast<unsigned long long>(amount));
  }
  __device__ static std::uint64_t take(std::uint64_t* cell) {
    return atomicExch_system(reinterpret_cast<unsigned long long*>(cell), 0ULL);
  }
  __device__ std::uint32_t add(std::uint32_t* cell, std::uint32_t amount) const {
    if (system_) {
      __threadfence_system();
    } else {
      __threadfence();
    }
    return atomicAdd_system(cell, amount);
  }
  template <class T>
  __device__ static void show(T* word, T value) {
    *const_cast<volatile T*>(word) = value;
  }
  template <class T>
  __device__ static void show_last(T* word, T value) {
    __threadfence_system();
    show(word, value);
  }

  __device__ static Line load_line(const Line* line) {
    Line value;
    asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(value.first), "=r"(value.first_mark), "=r"(value.second), "=r"(value.second_mark)
                 : "l"(line)
                 : "memory");
    return value;
  }
  __device__ static void store_line(Line* line, const Line& value) {
    asm volatile("st.volatile.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(line), "r"(value.first), "r"(value.first_mark),
                 "r"(value.second), "r"(value.second_mark)
                 : "memory");
  }

 private:
  /// What the warp's first thread has, so that all of it goes one way.
  __device__ static std::uint64_t first_of(std::uint64_t value) { return __shfl_sync(0xFFFF'FFFFU, value, 0); }

  __device__ static void end_step() {
    __syncwarp();  // its first thread may have published alone
    asm volatile("bar.sync 2, %0;" ::"n"(kThreads) : "memory");
  }
  __device__ void publish() {
    if (holds_ && leads() && !stopped_) {
      if (held_.ordered && system_) {
        asm volatile("fence.acq_rel.sys;" ::: "memory");
      } else if (held_.ordered) {
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
      }
      store(held_.head);
      store(held_.tail);
      store(held_.progress);
    }
    holds_ = false;
  }
  __device__ static void store(const Note& note) {
    if (note.count != nullptr) {
      asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(note.count), "l"(note.value) : "memory");
    }
  }

  TeamMemory& memory_;
  const volatile std::uint32_t* aborted_;  // of the host
  std::int64_t offset_;
  bool system_;
  bool stopped_ = false;
  bool holds_ = false;  // `held_` is to be published when the workers have ended the step
  Notes held_;
};

}  // namespace pruned::device
