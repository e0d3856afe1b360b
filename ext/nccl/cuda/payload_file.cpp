#include "payload_file.h"

#include <fcntl.h>
#include <unistd.h>

#include "check.h"

namespace pruned::device {

PayloadFile::PayloadFile(const std::string& path) : path_(path), number_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (number_ < 0) {
    fail_on_file("cannot open payload", path);
  }
}

PayloadFile::~PayloadFile() { close(number_); }

void PayloadFile::read(std::byte* to, std::int64_t bytes, std::int64_t offset) const {
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

}  // namespace pruned::device
