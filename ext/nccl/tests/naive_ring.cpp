#include "naive_ring.h"

#include <algorithm>

namespace pruned::testing {
namespace {

/// One rank's memory: the operation's data, its own input first, sums and blocks as they come.
struct Rank {
  Bytes data;    // what it brings, by the operation's elements; of an all_gather, its own block in its place
  Bytes result;  // likewise
};

class Ring {
 public:
  Ring(const Op& op, Sizes sizes, const std::vector<Bytes>& inputs) : op_(op), sizes_(sizes) {
    const std::int64_t elements = op.kind == Kind::kReduceScatter ? op.sent_blocks().total()
                                  : op.kind == Kind::kAllGather   ? op.received_blocks().total()
                                                                  : op.count;
    run_.sent.resize(op.size);
    for (int r = 0; r < op.size; ++r) {
      Rank rank{.data = brought(op, inputs[r]), .result = Bytes(elements * op.item())};
      if (op.kind == Kind::kAllGather) {
        rank.data.assign(elements * op.item(), std::byte{0});
        std::ranges::copy(inputs[r], rank.data.begin() + op.received_blocks()[r].first * op.item());
      }
      ranks_.push_back(std::move(rank));
    }
  }

  Run run() {
    const std::int64_t full = std::max<std::int64_t>((chain() ? sizes_.slice : sizes_.chunk) / op_.item(), 1);
    if (chain()) {
      for (std::int64_t at = 0; at < op_.count; at += full) {
        run_.chunks.push_back({{at, std::min(at + full, op_.count)}, op_.root});
        chain_loop(run_.chunks.back().first);
      }
    } else if (op_.kind == Kind::kAllReduce) {
      std::int64_t at = 0;
      while (at < op_.count) {
        const std::int64_t left = op_.count - at;
        const std::int64_t even = (left + op_.size - 1) / op_.size * static_cast<std::int64_t>(op_.item());
        const std::int64_t chunk =
            left >= op_.size * full ? full : std::max<std::int64_t>((even + 15) / 16 * 16 / op_.item(), 1);
        std::vector<Extent> chunks;
        for (int c = 0; c < op_.size; ++c, at = std::min(at + chunk, op_.count)) {
          chunks.push_back({at, std::min(at + chunk, op_.count)});
        }
        note(chunks);
        reduce_scatter_loop(chunks);
        all_gather_loop(chunks);
      }
    } else {
      block_loops(full);
    }
    for (int r = 0; r < op_.size; ++r) {
      run_.outputs.push_back(output(r));
    }
    return std::move(run_);
  }

 private:
  bool chain() const { return op_.kind == Kind::kBroadcast || op_.kind == Kind::kReduce; }
  int wrap(int r) const { return ((r % op_.size) + op_.size) % op_.size; }

  void note(const std::vector<Extent>& chunks) {
    for (int owner = 0; owner < op_.size; ++owner) {
      run_.chunks.emplace_back(chunks[owner], owner);
    }
  }

  Bytes piece(const Bytes& data, const Extent& extent) const {
    const auto item = static_cast<std::int64_t>(op_.item());
    return {data.begin() + extent.first * item, data.begin() + extent.last * item};
  }

  void put(Bytes& data, const Extent& extent, const Bytes& value) const {
    std::ranges::copy(value, data.begin() + extent.first * static_cast<std::int64_t>(op_.item()));
  }

  void block_loops(std::int64_t full) {
    const bool gathers = op_.kind == Kind::kAllGather;
    const Blocks blocks = gathers ? op_.received_blocks() : op_.sent_blocks();
    std::int64_t longest = 0;
    for (int r = 0; r < op_.size; ++r) {
      longest = std::max(longest, blocks[r].count());
    }
    for (std::int64_t at = 0; at < longest; at += full) {
      std::vector<Extent> chunks;
      for (int r = 0; r < op_.size; ++r) {
        const Extent block = blocks[r];
        chunks.push_back({std::min(block.first + at, block.last), std::min(block.first + at + full, block.last)});
      }
      note(chunks);
      if (gathers) {
        for (int r = 0; r < op_.size; ++r) {
          put(ranks_[r].result, chunks[r], piece(ranks_[r].data, chunks[r]));
        }
        all_gather_loop(chunks);
      } else {
        reduce_scatter_loop(chunks);
      }
    }
  }

  /// Everybody sends to the right, N - 1 times; what is left of it is the own chunk's sum in `result`.
  void reduce_scatter_loop(const std::vector<Extent>& chunks) {
    std::vector<Bytes> moving(op_.size);
    for (int n = 0; n < op_.size; ++n) {
      std::vector<Bytes> next(op_.size);
      for (int r = 0; r < op_.size; ++r) {
        const Bytes own = piece(ranks_[r].data, chunks[wrap(r - 1 - n)]);
        next[r] = n == 0 ? own : added(op_, moving[wrap(r - 1)], own);
        if (n < op_.size - 1) {
          run_.sent[r].push_back(next[r]);
        } else {
          put(ranks_[r].result, chunks[r], divided(op_, next[r]));
        }
      }
      moving = next;
    }
  }

  /// Everybody passes on first its own chunk, then what came.
  void all_gather_loop(const std::vector<Extent>& chunks) {
    for (int n = 0; n < op_.size - 1; ++n) {
      std::vector<Bytes> moving(op_.size);
      for (int r = 0; r < op_.size; ++r) {
        moving[r] = piece(ranks_[r].result, chunks[wrap(r - n)]);
        run_.sent[r].push_back(moving[r]);
      }
      for (int r = 0; r < op_.size; ++r) {
        put(ranks_[r].result, chunks[wrap(r - 1 - n)], moving[wrap(r - 1)]);
      }
    }
  }

  void chain_loop(const Extent& chunk) {
    const bool sums = op_.kind == Kind::kReduce;
    int r = sums ? wrap(op_.root + 1) : op_.root;
    Bytes value = piece(ranks_[r].data, chunk);
    for (int hop = 0; hop < op_.size - 1; ++hop) {
      put(ranks_[r].result, chunk, value);
      run_.sent[r].push_back(value);
      r = wrap(r + 1);
      if (sums) {
        value = added(op_, value, piece(ranks_[r].data, chunk));
      }
    }
    put(ranks_[r].result, chunk, sums ? divided(op_, value) : value);
  }

  Bytes output(int r) const {
    if (op_.kind == Kind::kReduceScatter) {
      return piece(ranks_[r].result, op_.sent_blocks()[r]);
    }
    return op_.kind == Kind::kReduce && r != op_.root ? Bytes{} : ranks_[r].result;
  }

  Op op_;
  Sizes sizes_;
  std::vector<Rank> ranks_;
  Run run_;
};

/// Blocks for each member, of what member `r` sends or gets.
Bytes block(const Op& op, const Bytes& data, const Extent& extent) {
  const auto item = static_cast<std::int64_t>(op.item());
  return {data.begin() + extent.first * item, data.begin() + extent.last * item};
}

Run run_pairs(const Op& op, const std::vector<Bytes>& inputs) {
  Run run;
  for (int r = 0; r < op.size; ++r) {
    Bytes out;
    const auto take = [&](const Bytes& bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); };
    if (op.kind == Kind::kScatter) {
      take(block(op, inputs[op.root], op.sent_blocks()[r]));
    } else if (op.kind == Kind::kAllToAll) {
      for (int from = 0; from < op.size; ++from) {
        take(block(op, inputs[from], op.sent_blocks()[r]));
      }
    } else if (r == op.root) {
      std::ranges::for_each(inputs, take);
    }
    run.outputs.push_back(std::move(out));
  }
  return run;
}

}  // namespace

Run run_naively(const Op& op, Sizes sizes, const std::vector<Bytes>& inputs) {
  if (op.kind == Kind::kGather || op.kind == Kind::kScatter || op.kind == Kind::kAllToAll) {
    return run_pairs(op, inputs);
  }
  return Ring(op, sizes, inputs).run();
}

}  // namespace pruned::testing
