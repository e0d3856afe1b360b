// The directory in memory through which the parties of a host meet: names of files, and what stops everybody.

#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "calling_off.h"
#include "mapping.h"

namespace pruned {

/// Who sends, receives and waits: the member of this rank, the arc after it, its virtual peers, or its branches.
struct Party {
  enum class Role : char { kMember = 'm', kArc = 'a', kPeers = 'p', kBranches = 'b' };
  Role role;
  int rank;
};

class Directory {
 public:
  explicit Directory(std::filesystem::path path);

  /// The file of this name, mapped; objects of this process that ask for one name at one time share one mapping.
  std::shared_ptr<Mapping> open(const std::string& name, std::size_t bytes);

  /// The first reason is the one that all are told.
  void abort(std::string_view reason);
  /// Throws Aborted, with the reason, if somebody has called abort().
  void check() const;

 private:
  CallingOff& calling_off() const { return *reinterpret_cast<CallingOff*>(abort_->data()); }

  std::filesystem::path path_;
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<Mapping>> open_;
  std::shared_ptr<Mapping> abort_;
};

// The names of all files; a group's or a pipe's own name may have any characters.
std::string bell_name(std::string_view group, Party party);
std::string fifo_name(std::string_view group, Party from, Party to);
/// Of the edge above a member in a tree, up or down.
std::string tree_fifo_name(std::string_view group, int tree, int child, bool up);
/// What a member publishes for the arc after it, or for its branches in trees.
std::string input_name(std::string_view group, int rank, bool tree);
std::string input_fifo_name(std::string_view group, int rank, bool tree);
std::string pipe_name(std::string_view pipe);
std::string pipe_bell_name(std::string_view pipe, bool sender);

}  // namespace pruned
