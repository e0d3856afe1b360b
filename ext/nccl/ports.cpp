#include "ports.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace pruned {
namespace {

std::vector<int> checked(std::vector<int> sandbox, int size) {
  const bool sorted = std::ranges::adjacent_find(sandbox, std::greater_equal{}) == sandbox.end();
  if (sandbox.empty() || !sorted || sandbox.front() < 0 || sandbox.back() >= size) {
    throw std::invalid_argument("the sandbox must be some of the group's ranks, each once, in ascending order");
  }
  return sandbox;
}

}  // namespace

Ports::Ports(std::shared_ptr<Directory> directory, std::string group, int size, std::vector<int> sandbox, Party self)
    : directory_(std::move(directory)),
      group_(std::move(group)),
      size_(size),
      sandbox_(checked(std::move(sandbox), size)),
      self_(self),
      bell_(bell_of(self)) {
  if (!in_sandbox(self.rank)) {
    throw std::invalid_argument("member " + std::to_string(self.rank) + " is no sandbox member");
  }
}

Inlet& Ports::inlet(const std::string& name, Party from) {
  const auto known = inlets_.find(name);
  return known != inlets_.end() ? known->second
                                : inlets_.try_emplace(name, *directory_, name, bell_of(from)).first->second;
}

Outlet& Ports::outlet(const std::string& name, Party to) {
  const auto known = outlets_.find(name);
  return known != outlets_.end() ? known->second
                                 : outlets_.try_emplace(name, *directory_, name, bell_of(to)).first->second;
}

Party Ports::right_of(int member) const {
  const auto arc = arc_after(size_, sandbox_, member);
  return arc.has_value() ? Party{Party::Role::kArc, member} : Party{Party::Role::kMember, (member + 1) % size_};
}

Party Ports::left_of(int member) const {
  const auto place = std::ranges::find(sandbox_, member);
  const int before = place == sandbox_.begin() ? sandbox_.back() : *(place - 1);
  const bool adjacent = (before + 1) % size_ == member;
  return adjacent ? Party{Party::Role::kMember, before} : Party{Party::Role::kArc, before};
}

Party Ports::peer(int member) const {
  return in_sandbox(member) ? Party{Party::Role::kMember, member} : Party{Party::Role::kPeers, self_.rank};
}

bool Ports::in_sandbox(int member) const { return std::ranges::binary_search(sandbox_, member); }

int Ports::arcs() const {
  return static_cast<int>(
      std::ranges::count_if(sandbox_, [&](int member) { return arc_after(size_, sandbox_, member).has_value(); }));
}

std::shared_ptr<Bell> Ports::bell_of(Party party) {
  return std::make_shared<Bell>(*directory_, bell_name(group_, party));
}

}  // namespace pruned
