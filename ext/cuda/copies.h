// Copies under way between segments and their image, on a stream of their own.
//
// They are only begun here, so whatever the calls of the driver between two of them take, the device has the ones
// before to do meanwhile. Where these end first it starves; events around the copies of each run tell how long it did.

#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "image.h"
#include "segment.h"

namespace residency {

/// By the device's clock, in ns: from the begin of the first copy to the end of the last, and of that without a copy.
struct CopyTimes {
  std::uint64_t copying = 0;
  std::uint64_t starved = 0;
};

class Copies {
 public:
  /// Events are taken from `spare` before others are made, and lie there afterwards: a full device may have none.
  Copies(Image& image, int device, std::vector<Event>& spare);
  ~Copies();
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  /// Begin to copy a chunk out; `unmap_finished` gives its memory back once it is there.
  void out(Segment& segment, std::size_t chunk);
  /// Give back the memory of chunks that are copied; of all of them, if `wait`.
  void unmap_finished(bool wait);

  /// Whether a chunk can be opened together with those that wait for that; if not, they have to be opened first.
  bool takes(const Segment& segment, std::size_t chunk) const;
  /// Let a chunk, which is mapped, come in with the next `open`.
  void in(Segment& segment, std::size_t chunk) { coming_.add(segment, chunk); }
  /// Open what waits for it, and begin to copy it in; false if the device has no memory left for that.
  [[nodiscard]] bool open();
  void wait();

  /// Of copies that have all been waited for.
  CopyTimes times() const;

 private:
  struct Chunk {
    Segment* segment;
    std::size_t index;
  };

  /// Chunks whose addresses follow each other, together no larger than one may be: opened, and unmapped, at one time.
  struct Run {
    Range range;
    std::vector<Chunk> chunks;
    Event copied = nullptr;  // of a run that leaves

    bool takes(const Segment& segment, std::size_t chunk) const;
    void add(Segment& segment, std::size_t chunk);
  };

  /// Events before and after the copies of a run.
  struct Span {
    Event begun;
    Event copied;
  };

  template <class Copy>
  void piecewise(const Segment& segment, std::size_t chunk, Copy copy);
  /// A span that begins now; it ends where `copied` is recorded.
  const Span& begin();

  Image& image_;
  int device_;
  Stream stream_ = nullptr;
  std::deque<Run> leaving_;
  Run coming_;
  std::vector<Span> spans_;
  std::vector<Event>& spare_;
};

}  // namespace residency
