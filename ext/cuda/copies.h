// Copies under way between segments and their image, on a stream of their own.

#pragma once

#include <deque>
#include <vector>

#include "image.h"
#include "segment.h"

namespace residency {

class Copies {
 public:
  Copies(Image& image, int device);
  ~Copies();
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  /// Begin to copy a chunk out; `unmap_finished` gives its memory back once it is there.
  void out(Segment& segment, std::size_t chunk);
  /// Give back the memory of chunks that are copied; of all of them, if `wait`.
  void unmap_finished(bool wait);

  /// Whether a chunk can be opened together with those that wait for that; if not, they have to be opened first.
  bool takes(const Segment& segment, std::size_t chunk) const { return coming_.takes(segment, chunk); }
  /// Let a chunk, which is mapped, come in with the next `open`.
  void in(Segment& segment, std::size_t chunk) { coming_.add(segment, chunk); }
  /// Open what waits for it, and begin to copy it in; false if the device has no memory left for that.
  [[nodiscard]] bool open();
  void wait();

 private:
  struct Chunk {
    Segment* segment;
    std::size_t index;
  };

  /// Chunks whose addresses follow each other; `copied` is an event after them.
  struct Run {
    Range range;
    std::vector<Chunk> chunks;
    Event copied = nullptr;

    bool takes(const Segment& segment, std::size_t chunk) const;
    void add(Segment& segment, std::size_t chunk);
  };

  template <class Copy>
  void piecewise(const Segment& segment, std::size_t chunk, Copy copy);
  Event event();

  Image& image_;
  int device_;
  Stream stream_ = nullptr;
  std::deque<Run> leaving_;
  Run coming_;
  std::vector<Event> spare_;
};

}  // namespace residency
