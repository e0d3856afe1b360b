#include "image.h"

#include <algorithm>

#include "errors.h"

namespace residency {
namespace {

constexpr std::size_t kSector = 4096;

std::size_t slots_for(std::size_t bytes) { return (bytes + kSlot - 1) / kSlot; }

std::size_t whole_sectors(std::size_t bytes) { return (bytes + kSector - 1) / kSector * kSector; }

}  // namespace

Image::Image(Pool& pool, std::size_t bytes) : pool_(pool), bytes_(bytes), slots_(pool.claim(slots_for(bytes))) {
  try {
    pool_.populate(slots_);
    std::for_each(slots_.begin(), slots_.end(), [&](std::uint32_t slot) { pool_.pin(slot); });
  } catch (...) {
    std::for_each(slots_.begin(), slots_.end(), [&](std::uint32_t slot) { pool_.release(slot); });
    throw;
  }
}

Image::~Image() {
  std::for_each(slots_.begin(), slots_.end(), [&](std::uint32_t slot) { pool_.release(slot); });
}

std::byte* Image::slot(std::size_t index, Stream stream) {
  if (!file_) {
    return pool_.pin(slots_.at(index));
  }
  if (slots_.empty()) {
    slots_ = pool_.claim(1);
  }
  std::byte* memory = pool_.pin(slots_.front());
  if (loaded_ != index) {
    RESIDENCY_CHECK(cuStreamSynchronize(stream));
    loaded_.reset();
    file_->read(index, memory);
    loaded_ = index;
  }
  return memory;
}

void Image::spill(const std::filesystem::path& path) {
  if (file_) {
    throw Failure(RESIDENCY_INVALID, "the host copy is in a file already");
  }
  const std::size_t whole = whole_sectors(bytes_);
  file_.emplace(path, whole);
  try {
    for (std::size_t index = 0; index < slots_.size(); ++index) {
      file_->write(pool_.pin(slots_[index]), std::min(kSlot, whole - index * kSlot));
    }
  } catch (...) {
    file_.reset();
    throw;
  }
  std::for_each(slots_.begin(), slots_.end(), [&](std::uint32_t slot) { pool_.release(slot); });
  slots_.clear();
}

}  // namespace residency
