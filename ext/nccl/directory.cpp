#include "directory.h"

#include <cctype>
#include <cstdint>
#include <utility>

#include "errors.h"

namespace pruned {
namespace {

constexpr std::size_t kLongestName = 120;

/// Letters, digits, - and _ as they are, others as %xx; what would be too long for a file's name ends in a hash.
std::string encoded(std::string_view name) {
  constexpr char digits[] = "0123456789abcdef";
  std::string result;
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    hash = (hash ^ byte) * 1099511628211ULL;
    if (std::isalnum(byte) != 0 || c == '-' || c == '_') {
      result += c;
    } else {
      result += {'%', digits[byte >> 4], digits[byte & 15]};
    }
  }
  if (result.size() > kLongestName) {
    result.resize(kLongestName);
    result += '~';
    for (int shift = 60; shift >= 0; shift -= 4) {
      result += digits[(hash >> shift) & 15];
    }
  }
  return result;
}

std::string text(Party party) { return static_cast<char>(party.role) + std::to_string(party.rank); }

}  // namespace

Directory::Directory(std::filesystem::path path)
    : path_(std::move(path)), abort_(open(kCallingOffFile, sizeof(CallingOff))) {}

std::shared_ptr<Mapping> Directory::open(const std::string& name, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  std::erase_if(open_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Mapping>& known = open_[name];
  std::shared_ptr<Mapping> mapping = known.lock();
  if (mapping == nullptr || mapping->size() < bytes) {
    mapping = std::make_shared<Mapping>(path_ / name, bytes);
    known = mapping;
  }
  return mapping;
}

void Directory::abort(std::string_view reason) { call_off(calling_off(), reason); }

void Directory::check() const {
  if (is_called_off(calling_off())) {
    throw Aborted(calling_off().reason);
  }
}

std::string bell_name(std::string_view group, Party party) { return "group." + encoded(group) + "." + text(party); }

std::string fifo_name(std::string_view group, Party from, Party to) {
  return "group." + encoded(group) + "." + text(from) + "-" + text(to);
}

std::string tree_fifo_name(std::string_view group, int tree, int child, bool up) {
  const std::string edge = std::to_string(tree) + "." + std::to_string(child);
  return "group." + encoded(group) + ".tree" + edge + (up ? "up" : "down");
}

std::string input_name(std::string_view group, int rank, bool tree) {
  return "group." + encoded(group) + (tree ? ".treeinput" : ".input") + std::to_string(rank);
}

std::string input_fifo_name(std::string_view group, int rank, bool tree) {
  return input_name(group, rank, tree) + ".told";
}

std::string pipe_name(std::string_view pipe) { return "pipe." + encoded(pipe); }

std::string pipe_bell_name(std::string_view pipe, bool sender) {
  return "pipe." + encoded(pipe) + (sender ? ".sender" : ".receiver");
}

}  // namespace pruned
