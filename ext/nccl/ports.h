// The FIFOs of one party, opened when they are first used, and the bell that all of them ring.

#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "arc_plan.h"
#include "bell.h"
#include "fifo.h"

namespace pruned {

class Ports {
 public:
  /// Throws std::invalid_argument if the sandbox is no sorted set of members.
  Ports(std::shared_ptr<Directory> directory, std::string group, int size, std::vector<int> sandbox, Party self);

  Inlet& from(Party party) { return inlet(fifo_name(group_, party, self_), party); }
  Outlet& to(Party party) { return outlet(fifo_name(group_, self_, party), party); }
  /// The same of a FIFO with a name of its own.
  Inlet& inlet(const std::string& name, Party from);
  Outlet& outlet(const std::string& name, Party to);

  /// The sandbox members, or the arcs between them, next to a sandbox member.
  Party left_of(int member) const;
  Party right_of(int member) const;
  /// Through whom a sandbox member reaches another member.
  Party peer(int member) const;

  bool in_sandbox(int member) const;
  int size() const { return size_; }
  int arcs() const;
  const std::vector<int>& sandbox() const { return sandbox_; }
  Bell& bell() { return *bell_; }
  Directory& directory() const { return *directory_; }
  const std::string& group() const { return group_; }
  Party self() const { return self_; }

 private:
  std::shared_ptr<Bell> bell_of(Party party);

  std::shared_ptr<Directory> directory_;
  std::string group_;
  int size_;
  std::vector<int> sandbox_;
  Party self_;
  std::shared_ptr<Bell> bell_;
  std::map<std::string, Inlet> inlets_;
  std::map<std::string, Outlet> outlets_;
};

}  // namespace pruned
