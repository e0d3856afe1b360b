// What a process holds of a group or a pipe: the FIFOs and the bell of one party, and the operation that runs on them.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "activity.h"
#include "contribution.h"
#include "pace.h"
#include "pool.h"
#include "ports.h"
#include "ring_member.h"
#include "tree_member.h"
#include "virtual_branches.h"

namespace pruned {

class Endpoint {
 public:
  Endpoint() = default;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  virtual ~Endpoint() = default;

  /// Goes on with the operation for a while; whether it is done. See drive().
  bool wait();
  const Moved& moved() const { return activity_->moved(); }

 protected:
  void begin(std::unique_ptr<Activity> activity) { activity_ = std::move(activity); }

 private:
  virtual Bell& bell() = 0;
  virtual const Directory& directory() const = 0;

  std::unique_ptr<Activity> activity_;
};

/// What all parties of a group are made of.
struct Membership {
  std::string directory;
  std::string group;
  int size;
  std::vector<int> sandbox;
  std::vector<int> nodes;  // of each member, for trees; empty: each member is a node of its own
  int rank;                // a sandbox member: the party itself, the one before an arc, or the partner of the peers
};

class GroupEndpoint : public Endpoint {
 protected:
  GroupEndpoint(const Membership& membership, Party::Role role);

  /// Throws std::invalid_argument if the operation is none of this group.
  void check(const Op& op) const;

  Ports ports_;

 private:
  Bell& bell() override { return ports_.bell(); }
  const Directory& directory() const override { return ports_.directory(); }
};

/// A sandbox member; with `replicas` it publishes its inputs.
class MemberEndpoint final : public GroupEndpoint {
 public:
  MemberEndpoint(const Membership& membership, bool replicas);

  void start(const Op& op, const Buffers& buffers);

 private:
  std::unique_ptr<Activity> collective(const Op& op, const Buffers& buffers);
  /// Where a published input is told of in such an operation; null if nobody wants it.
  Outlet* told(const Op& op);
  const std::array<TreePlace, kTrees>& places();

  bool replicas_;
  std::vector<int> nodes_;
  std::optional<std::array<TreePlace, kTrees>> places_;
};

/// The virtual members after a sandbox member.
class ArcEndpoint final : public GroupEndpoint {
 public:
  explicit ArcEndpoint(const Membership& membership);

  void start(const Op& op, const Contribution& contribution, std::optional<Times> times);

 private:
  Arc arc_;
  Pool pool_;
};

/// The virtual members as partners of one sandbox member.
class PeersEndpoint final : public GroupEndpoint {
 public:
  explicit PeersEndpoint(const Membership& membership) : GroupEndpoint(membership, Party::Role::kPeers) {}

  void start(const Op& op, const std::byte* data, std::optional<Times> times);
};

/// The virtual members in the branches that a sandbox member keeps.
class BranchesEndpoint final : public GroupEndpoint {
 public:
  explicit BranchesEndpoint(const Membership& membership);

  void start(const Op& op, const Contribution& contribution, const std::optional<Times>& times);

 private:
  TreeShape shape_;
  std::vector<Branch> branches_;
  Pool pool_;
};

/// One end of a pipe; which one, its first use says.
class PipeEndpoint final : public Endpoint {
 public:
  PipeEndpoint(const std::string& directory, std::string name);

  void send(const std::byte* data, std::size_t bytes, std::int64_t start, std::int64_t duration);
  void receive(std::byte* data, std::size_t bytes);

 private:
  Bell& bell() override { return *bell_; }
  const Directory& directory() const override { return *directory_; }

  std::shared_ptr<Directory> directory_;
  std::string name_;
  std::shared_ptr<Bell> bell_;
  std::optional<Outlet> outlet_;
  std::optional<Inlet> inlet_;
};

}  // namespace pruned
