#include "pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace spill {
namespace {

constexpr std::uint64_t kPresent = 1ULL << 63;
constexpr std::uint64_t kSwapped = 1ULL << 62;    // or on its way to another place in memory, at this moment
constexpr std::uint64_t kFile = 1ULL << 61;       // a page of a file, or of shared memory
constexpr std::uint64_t kExclusive = 1ULL << 56;  // mapped here and nowhere else
constexpr int kGap = 4;                           // shared pages between two runs that are written with them
constexpr std::size_t kMostPages = 1 << 26;       // of a spill file that have a place: 256 GiB
constexpr std::size_t kEntries = 1024;            // of the page map, read at a time

enum class Page { absent, of_file, shared, moving, ours };

Page judge(std::uint64_t entry) {
  if (entry & kSwapped) return Page::moving;
  if (!(entry & kPresent)) return Page::absent;
  if (entry & kFile) return Page::of_file;
  return entry & kExclusive ? Page::ours : Page::shared;
}

// Whether a page may be written with its neighbours, so that one mapping does for both.
bool joins_others(Page page) { return page == Page::shared || page == Page::of_file; }

std::uint64_t number(std::string_view& text, int base) {
  std::uint64_t value = 0;
  while (!text.empty()) {
    const char c = text.front();
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : base;
    if (digit >= base) break;
    value = value * static_cast<std::uint64_t>(base) + static_cast<std::uint64_t>(digit);
    text.remove_prefix(1);
  }
  return value;
}

std::string_view word(std::string_view& text) {
  const std::string_view found = text.substr(0, text.find(' '));
  text.remove_prefix(std::min(text.size(), found.size() + 1));
  return found;
}

// BEGIN-END PERMS OFFSET DEVICE INODE   PATH
bool parse(std::string_view line, std::uint64_t inode, Mapping& mapping) {
  mapping.begin = number(line, 16);
  line.remove_prefix(1);
  mapping.end = number(line, 16);
  line.remove_prefix(1);
  if (word(line) != "rw-p") return false;
  mapping.offset = number(line, 16);
  line.remove_prefix(1);
  word(line);
  const std::uint64_t file = number(line, 10);
  line.remove_prefix(std::min(line.size(), line.find_first_not_of(' ')));
  mapping.spilled = file == inode && line.ends_with("(deleted)");
  if (file != 0) return mapping.spilled || (line.starts_with('/') && !line.starts_with("/dev/"));
  return line.empty() || line == "[heap]" || line.starts_with("[anon");
}

template <typename Visit>
bool visit_pages(const Mapping& mapping, Visit visit) {
  static std::uint64_t entries[kEntries];
  const int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  bool good = true;
  for (std::uintptr_t at = mapping.begin; good && at < mapping.end;) {
    const std::size_t count = std::min(kEntries, (mapping.end - at) / kPage);
    const auto want = static_cast<ssize_t>(count * sizeof(entries[0]));
    good = pread(file, entries, static_cast<std::size_t>(want), static_cast<off_t>(at / kPage * 8)) == want;
    for (std::size_t i = 0; good && i < count; ++i, at += kPage) good = visit(at, judge(entries[i]));
  }
  close(file);
  return good;
}

}  // namespace

bool find_mappings(std::uint64_t inode, List<Mapping>& found) {
  static char text[16384];
  const int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  bool good = true;
  std::size_t held = 0;
  for (ssize_t got; good && (got = read(file, text + held, sizeof text - held)) > 0;) {
    std::string_view left(text, held + static_cast<std::size_t>(got));
    for (std::size_t end; good && (end = left.find('\n')) != left.npos; left.remove_prefix(end + 1)) {
      Mapping mapping;
      if (!parse(left.substr(0, end), inode, mapping)) continue;
      good = !found.full();
      if (good) found.add(mapping);
    }
    held = left.size();
    std::memmove(text, left.data(), held);
  }
  close(file);
  return good;
}

bool Places::reserve() {
  void* memory = mmap(nullptr, kMostPages * sizeof(std::uintptr_t), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  pages_ = {static_cast<std::uintptr_t*>(memory), kMostPages};
  return true;
}

bool Places::belongs(std::uint64_t offset, std::uintptr_t page) const {
  const std::uint64_t number = offset / kPage;
  return number < pages_.size() && pages_[number] == page;
}

void Places::release_moved(std::span<const Mapping> mappings) {
  for (const Mapping& mapping : mappings) {
    if (!mapping.spilled) continue;
    for (std::uintptr_t at = mapping.begin; at < mapping.end; at += kPage) {
      const std::uint64_t number = (mapping.offset + (at - mapping.begin)) / kPage;
      if (number < pages_.size() && pages_[number] != at) pages_[number] = 0;
    }
  }
}

void Places::note(std::uint64_t offset, std::uintptr_t begin, std::uintptr_t end) {
  std::uint64_t number = offset / kPage;
  for (std::uintptr_t page = begin; page < end && number < pages_.size(); page += kPage) pages_[number++] = page;
}

Private find_runs(const Mapping& mapping, const Held& held, const Places* places, List<Run>& back, List<Run>& fresh) {
  const int longest = mapping.spilled ? 0 : kGap;
  Private result;
  Run run;
  bool in_place = false;
  int gap = 0;
  const auto end_run = [&] {
    if (run.begin == run.end) return true;
    List<Run>& found = in_place ? back : fresh;
    if (found.full()) return false;
    found.add(run);
    return true;
  };
  result.all = visit_pages(mapping, [&](std::uintptr_t at, Page page) {
    if (page == Page::ours && held.uses(at)) {
      result.used += kPage;
      page = Page::absent;
    }
    result.elsewhere = result.elsewhere || page == Page::moving || page == Page::shared;
    if (page != Page::ours) {
      gap = joins_others(page) && gap < longest && !held.uses(at) ? gap + 1 : longest + 1;
      return true;
    }
    const std::uint64_t offset = mapping.offset + (at - mapping.begin);
    const bool has_place = mapping.spilled && places != nullptr && places->belongs(offset, at);
    const bool follows = run.end != run.begin && run.end + static_cast<std::uintptr_t>(gap) * kPage == at;
    if (!follows || has_place != in_place) {
      if (!end_run()) return false;
      run = {at, at, offset};
      in_place = has_place;
    }
    run.end = at + kPage;
    gap = 0;
    return true;
  });
  result.all = end_run() && result.all;
  return result;
}

std::int64_t private_bytes(const Mapping& mapping) {
  std::int64_t bytes = 0;
  const bool good = visit_pages(mapping, [&](std::uintptr_t, Page page) {
    bytes += page == Page::ours ? static_cast<std::int64_t>(kPage) : 0;
    return true;
  });
  return good ? bytes : -1;
}

}  // namespace spill
