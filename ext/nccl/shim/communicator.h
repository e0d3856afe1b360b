// A communicator of ours: members of a process group, some of them virtual, for which the engine answers.

#pragma once

#include "../cuda/engine.h"
#include "abi.h"
#include "scales.h"

namespace pruned::shim {

class Communicator {
 public:
  /// `id`: what it was made with; communicators that come from this one are known by it.
  Communicator(const UniqueId& id, device::Group& group) : id_(id), group_(&group) {}

  const UniqueId& id() const { return id_; }
  int size() const { return group_->size(); }
  int rank() const { return group_->rank(); }
  int device() const { return group_->device(); }
  Scales& scales() { return scales_; }

  /// Throw Failure if the engine does not take it.
  void launch(const device::Work& work, Stream stream) { check(group_->launch(work, stream)); }
  void launch(std::span<const device::Message> messages, Stream stream) { check(group_->launch(messages, stream)); }

  /// Whether what was launched has gone wrong.
  Result state() const;
  /// What went wrong; "" if nothing did. It stays valid in this thread until the thread asks again.
  const char* text() const;

  void abort() { group_->abort(); }
  /// The last thing to do with it.
  void close() { group_->close(); }

 private:
  void check(device::Verdict verdict) const;

  UniqueId id_;
  device::Group* group_;
  Scales scales_;
};

/// The result of a call that has made a communicator, which is complete at once: a caller that does not want to wait is
/// told so when it asks for errors the first time. `config` may be null.
Result made(const Config* config);

}  // namespace pruned::shim
