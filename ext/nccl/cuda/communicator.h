// One communicator of a process group: the whole group, or some of its members.

#pragma once

#include <vector>

#include "process_group.h"

namespace pruned::device {

class Communicator final : public Group {
 public:
  /// `ranks`: the group ranks of its members, in its order; the group and the trouble outlive it.
  Communicator(ProcessGroup& group, std::vector<int> ranks, int rank, const Trouble& trouble)
      : group_(group), ranks_(std::move(ranks)), rank_(rank), trouble_(trouble) {
    group_.open();
  }

  int size() const override { return static_cast<int>(ranks_.size()); }
  int rank() const override { return rank_; }
  int device() const override { return group_.device(); }

  Verdict launch(const Work& work, CUstream_st* stream) override {
    Work translated = work;
    translated.root = is_chain(work.kind) ? ranks_.at(static_cast<std::size_t>(work.root)) : -1;
    return group_.launch(translated, stream);
  }
  Verdict launch(std::span<const Message> messages, CUstream_st* stream) override {
    std::vector<Message> translated(messages.begin(), messages.end());
    for (Message& message : translated) {
      message.peer = ranks_.at(static_cast<std::size_t>(message.peer));
    }
    return group_.launch(translated, stream);
  }

  Verdict error() const override { return group_.state(); }
  std::string text() const override { return trouble_.first().text; }
  void abort() override { group_.abort(); }
  void close() override {
    group_.close();
    delete this;
  }

 private:
  ~Communicator() override = default;

  ProcessGroup& group_;
  std::vector<int> ranks_;
  int rank_;
  const Trouble& trouble_;
};

}  // namespace pruned::device
