#include "spill_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "errors.h"

namespace residency {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::filesystem::path& file, int error) {
  throw Failure(RESIDENCY_SPILL_FULL, "cannot " + what + " " + file.string() + ": " + std::strerror(error));
}

int create(const std::filesystem::path& file) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
  int descriptor = open(file.c_str(), kFlags | O_DIRECT, 0600);
  if (descriptor < 0 && errno == EINVAL) {  // not every file system has it, and some have made the file by then
    unlink(file.c_str());
    descriptor = open(file.c_str(), kFlags, 0600);
  }
  if (descriptor < 0) {
    refuse("create", file, errno);
  }
  return descriptor;
}

/// Calls `move` until all bytes are moved; it returns what pread and pwrite return. The errno of a failure, or 0.
template <class Move>
int move_all(Move move, std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t moved = move(done, bytes - done);
    if (moved < 0 && errno == EINTR) {
      continue;
    }
    if (moved <= 0) {
      return moved < 0 ? errno : EIO;
    }
    done += static_cast<std::size_t>(moved);
  }
  return 0;
}

}  // namespace

SpillFile::SpillFile(std::filesystem::path path, std::size_t bytes) : path_(std::move(path)), descriptor_(create(path_)) {
  const int error = posix_fallocate(descriptor_, 0, static_cast<off_t>(bytes));
  if (error != 0 && error != EOPNOTSUPP && error != EINVAL) {
    close(descriptor_);
    unlink(path_.c_str());
    refuse("reserve " + std::to_string(bytes) + " bytes for", path_, error);
  }
}

SpillFile::~SpillFile() {
  close(descriptor_);
  unlink(path_.c_str());
}

void SpillFile::write(const std::byte* slot, std::size_t bytes) {
  const std::size_t offset = written_.empty() ? 0 : written_.back().offset + written_.back().bytes;
  const auto put = [&](std::size_t done, std::size_t left) {
    return pwrite(descriptor_, slot + done, left, static_cast<off_t>(offset + done));
  };
  if (const int error = move_all(put, bytes); error != 0) {
    refuse("write", path_, error);
  }
  written_.push_back({offset, bytes, checksum(slot, bytes)});
}

void SpillFile::read(std::size_t index, std::byte* slot) const {
  const Written& wanted = written_.at(index);
  const auto get = [&](std::size_t done, std::size_t left) {
    return pread(descriptor_, slot + done, left, static_cast<off_t>(wanted.offset + done));
  };
  const int error = move_all(get, wanted.bytes);
  if (error != 0 || checksum(slot, wanted.bytes) != wanted.checksum) {
    const std::string why = error != 0 ? std::strerror(error) : "its checksum is another";
    throw Failure(RESIDENCY_CORRUPT, path_.string() + " is not what was written: slot " + std::to_string(index) + ", " + why);
  }
}

std::uint64_t checksum(const std::byte* data, std::size_t bytes) {
  // Four lanes, so that multiplications overlap; odd multipliers lose no bit, rotations bring high bits down.
  std::array<std::uint64_t, 4> lanes{1, 2, 3, 4};
  for (std::size_t at = 0; at < bytes; at += 32) {
    std::array<std::uint64_t, 4> words;
    std::memcpy(words.data(), data + at, 32);
    for (std::size_t lane = 0; lane < 4; ++lane) {
      const std::uint64_t mixed = (lanes[lane] ^ words[lane]) * 0x9E3779B97F4A7C15u;
      lanes[lane] = mixed << 29 | mixed >> 35;
    }
  }
  std::uint64_t sum = bytes;
  for (const std::uint64_t lane : lanes) {
    sum = (sum ^ lane) * 0xD6E8FEB86659FD93u;
    sum ^= sum >> 32;
  }
  return sum;
}

}  // namespace residency
