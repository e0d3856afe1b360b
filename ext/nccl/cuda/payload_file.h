// A file of payloads.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace pruned::device {

/// Open as long as it lives. Throws Failure, as its readings do.
class PayloadFile {
 public:
  explicit PayloadFile(const std::string& path);
  ~PayloadFile();
  PayloadFile(const PayloadFile&) = delete;
  PayloadFile& operator=(const PayloadFile&) = delete;

  void read(std::byte* to, std::int64_t bytes, std::int64_t offset) const;

 private:
  const std::string& path_;
  int number_;
};

}  // namespace pruned::device
