// Copies under way between segments and their image, on a stream of their own.

#pragma once

#include <deque>
#include <vector>

#include "image.h"
#include "segment.h"

namespace residency {

class Copies {
 public:
  explicit Copies(Image& image);
  ~Copies();
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  /// Begin to copy a chunk out; `unmap_finished` gives its memory back once it is there.
  void out(Segment& segment, std::size_t chunk);
  /// Give back the memory of chunks that are copied; of all of them, if `wait`.
  void unmap_finished(bool wait);

  /// Begin to copy a chunk in.
  void in(Segment& segment, std::size_t chunk);
  void wait();

 private:
  struct Leaving {
    Segment* segment;
    std::size_t chunk;
    Event copied;
  };

  template <class Copy>
  void piecewise(const Segment& segment, std::size_t chunk, Copy copy);
  Event event();

  Image& image_;
  Stream stream_ = nullptr;
  std::deque<Leaving> leaving_;
  std::vector<Event> spare_;
};

}  // namespace residency
