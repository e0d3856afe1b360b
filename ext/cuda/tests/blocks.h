// Device memory with contents that can be told again, and the library's calls with their results checked.

#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "../api.h"
#include "check.h"

extern "C" int cudaMalloc(void** pointer, std::size_t bytes);
extern "C" int cudaFree(void* pointer);

namespace residency::testing {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline std::filesystem::path folder, disk;  // in memory, and not

struct Block {
  unsigned char* at;
  std::size_t bytes;
  std::uint64_t seed;
};

inline void fill(const Block& block) {
  std::mt19937_64 random(block.seed);
  for (std::size_t at = 0; at + 8 <= block.bytes; at += 4096 - 8) {  // a word in every page, never at the same place
    const std::uint64_t word = random();
    std::memcpy(block.at + at, &word, 8);
  }
}

inline bool whole(const Block& block) {
  std::mt19937_64 random(block.seed);
  for (std::size_t at = 0; at + 8 <= block.bytes; at += 4096 - 8) {
    const std::uint64_t word = random();
    if (std::memcmp(block.at + at, &word, 8) != 0) {
      return false;
    }
  }
  return true;
}

inline Block allocate(std::size_t bytes, std::uint64_t seed = 1) {
  void* at = nullptr;
  same(cudaMalloc(&at, bytes), 0, "cudaMalloc");
  const Block block{static_cast<unsigned char*>(at), bytes, seed};
  fill(block);
  return block;
}

inline void release(const Block& block) { same(cudaFree(block.at), 0, "cudaFree"); }

inline void open_pool(const char* name, std::uint32_t slots) {
  std::filesystem::remove(folder / name);
  same(residency_open((folder / name).c_str(), slots, 1), RESIDENCY_DONE, residency_error());
}

inline residency_moved done(std::int32_t status, const residency_moved& moved) {
  same(status, RESIDENCY_DONE, residency_error());
  return moved;
}

inline residency_moved out() {
  residency_moved moved{};
  const auto status = residency_out(&moved);
  return done(status, moved);
}

inline residency_moved in(std::uint32_t patience = 0) {
  residency_moved moved{};
  const auto status = residency_in(patience, &moved);
  return done(status, moved);
}

inline std::vector<residency_tally> calls() {
  std::vector<residency_tally> tallies(RESIDENCY_CALLS);
  residency_read_calls(tallies.data());
  return tallies;
}

inline void refused(std::int32_t status, std::int32_t wanted, const std::string& words) {
  same(status, wanted, residency_error());
  check(std::string(residency_error()).find(words) != std::string::npos, residency_error());
}

}  // namespace residency::testing
