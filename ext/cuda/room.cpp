#include "room.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>

#include "driver.h"

namespace residency {
namespace {

std::atomic<int> asked_through{-1};
std::mutex asking;  // one question at a time: answers carry no number

template <class Move>
bool whole(Move move, char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t moved = move(data, bytes);
    if (moved < 0 && errno == EINTR) {
      continue;
    }
    if (moved <= 0) {
      return false;
    }
    data += moved;
    bytes -= static_cast<std::size_t>(moved);
  }
  return true;
}

}  // namespace

void ask_through(int descriptor) { asked_through = descriptor; }

void leave_room(std::uint64_t bytes) {
  std::size_t free = 0, total = 0;
  while (asked_through >= 0 && driver().cuMemGetInfo(&free, &total) == 0 && free < bytes + kSpare) {
    if (!ask_for_room(bytes)) {
      return;
    }
  }
}

bool ask_for_room(std::uint64_t bytes) {
  const int line = asked_through;
  if (line < 0) {
    return false;
  }
  const std::lock_guard lock(asking);
  char answer = 0;
  std::size_t free = 0, total = 0;
  int device = 0;
  if (driver().cuMemGetInfo(&free, &total) != 0 || driver().cuCtxGetDevice(&device) != 0) {
    return false;
  }
  std::array<std::uint64_t, 3> question{bytes, free, static_cast<std::uint64_t>(device)};
  const auto put = [&](char* data, std::size_t size) { return send(line, data, size, MSG_NOSIGNAL); };
  const auto get = [&](char* data, std::size_t size) { return read(line, data, size); };
  return whole(put, reinterpret_cast<char*>(question.data()), sizeof question) && whole(get, &answer, 1) && answer == 1;
}

}  // namespace residency
