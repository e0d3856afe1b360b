#include "mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace pruned {
namespace {

class File {
 public:
  explicit File(const std::filesystem::path& path)
      : descriptor_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {}
  ~File() {
    if (descriptor_ >= 0) {
      close(descriptor_);
    }
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

[[noreturn]] void fail(const char* what, const std::filesystem::path& file) {
  throw std::system_error(errno, std::system_category(), std::string("cannot ") + what + " " + file.string());
}

/// Mappings stay nearly empty, so nothing is reserved; but who writes where there is no room is killed without a word.
void check_room(int descriptor, std::size_t bytes, const std::filesystem::path& file) {
  struct statvfs room{};
  if (fstatvfs(descriptor, &room) != 0 || room.f_bavail * room.f_frsize >= bytes) {
    return;
  }
  errno = ENOSPC;
  const std::string free = std::to_string(room.f_bavail * room.f_frsize);
  fail(("find " + std::to_string(bytes) + " bytes, " + free + " are free, for").c_str(), file);
}

}  // namespace

Mapping::Mapping(const std::filesystem::path& path, std::size_t bytes) : data_(nullptr), bytes_(bytes) {
  const File file(path);
  struct stat status{};
  if (file.descriptor() < 0 || fstat(file.descriptor(), &status) != 0) {
    fail("open", path);
  }
  // Two that lengthen it at one time lengthen it to the same size, or grow a file that only one of them writes.
  const auto wanted = static_cast<off_t>(bytes);
  if (status.st_size < wanted) {
    check_room(file.descriptor(), bytes, path);
    if (ftruncate(file.descriptor(), wanted) != 0) {
      fail("size", path);
    }
  }
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor(), 0);
  if (mapped == MAP_FAILED) {
    fail("map", path);
  }
  data_ = static_cast<std::byte*>(mapped);
}

Mapping::~Mapping() { munmap(data_, bytes_); }

}  // namespace pruned
