// Messages, and the collectives in which members exchange blocks in pairs, which are messages in one group.

#include <cstddef>
#include <cstdint>
#include <string>

#include "batch.h"
#include "failure.h"
#include "handles.h"
#include "real.h"
#include "types.h"

namespace pruned::shim {
namespace {

/// One end of a message, or of each message of a collective: blocks of `count` elements lie back to back by partner.
struct Block {
  Comm comm;
  Stream stream;
  std::size_t count;
  int dtype;
};

void move(const Block& block, const void* data, std::size_t place, int peer, bool sends) {
  Communicator& party = communicator(block.comm);
  if (peer < 0 || peer >= party.size()) {
    throw Failure(kInvalidArgument, "a communicator of " + std::to_string(party.size()) + " has no member " +
                                        std::to_string(peer));
  }
  const std::size_t bytes = block.count * itemsize(dtype_of(block.dtype));
  // The engine reads what is sent, and only that, so nothing is written through a pointer that was const.
  auto* first_byte = const_cast<std::byte*>(static_cast<const std::byte*>(data)) + place * bytes;
  submit({.communicator = &party,
          .stream = block.stream,
          .message = device::Message{peer, sends, first_byte, static_cast<std::int64_t>(bytes)}});
}

/// `body` gives messages, which are launched together.
template <typename Body>
Result exchange(Body body) {
  return guarded([&] {
    begin_batch();
    try {
      body();
    } catch (...) {
      drop_batch();
      throw;
    }
    end_batch();
    return kSuccess;
  });
}

void send(const Block& block, const void* data, int place, int peer) {
  move(block, data, static_cast<std::size_t>(place), peer, true);
}

void receive(const Block& block, void* data, int place, int peer) {
  move(block, data, static_cast<std::size_t>(place), peer, false);
}

}  // namespace
}  // namespace pruned::shim

using namespace pruned::shim;

SHIM_ENTRY Result ncclSend(const void* data, std::size_t count, int dtype, int peer, Comm comm, Stream stream) {
  if (!is_ours(comm)) {
    return SHIM_PASS(ncclSend, data, count, dtype, peer, comm, stream);
  }
  return exchange([&] { send({comm, stream, count, dtype}, data, 0, peer); });
}

SHIM_ENTRY Result ncclRecv(void* data, std::size_t count, int dtype, int peer, Comm comm, Stream stream) {
  if (!is_ours(comm)) {
    return SHIM_PASS(ncclRecv, data, count, dtype, peer, comm, stream);
  }
  return exchange([&] { receive({comm, stream, count, dtype}, data, 0, peer); });
}

SHIM_ENTRY Result ncclAlltoAll(const void* input, void* output, std::size_t count, int dtype, Comm comm,
                               Stream stream) {
  if (!is_ours(comm)) {
    return SHIM_PASS(ncclAlltoAll, input, output, count, dtype, comm, stream);
  }
  return exchange([&] {
    for (int peer = 0; peer < communicator(comm).size(); ++peer) {
      send({comm, stream, count, dtype}, input, peer, peer);
      receive({comm, stream, count, dtype}, output, peer, peer);
    }
  });
}

SHIM_ENTRY Result ncclGather(const void* input, void* output, std::size_t count, int dtype, int root, Comm comm,
                             Stream stream) {
  if (!is_ours(comm)) {
    return SHIM_PASS(ncclGather, input, output, count, dtype, root, comm, stream);
  }
  return exchange([&] {
    Communicator& party = communicator(comm);
    send({comm, stream, count, dtype}, input, 0, root);
    for (int peer = 0; party.rank() == root && peer < party.size(); ++peer) {
      receive({comm, stream, count, dtype}, output, peer, peer);
    }
  });
}

SHIM_ENTRY Result ncclScatter(const void* input, void* output, std::size_t count, int dtype, int root, Comm comm,
                              Stream stream) {
  if (!is_ours(comm)) {
    return SHIM_PASS(ncclScatter, input, output, count, dtype, root, comm, stream);
  }
  return exchange([&] {
    Communicator& party = communicator(comm);
    for (int peer = 0; party.rank() == root && peer < party.size(); ++peer) {
      send({comm, stream, count, dtype}, input, peer, peer);
    }
    receive({comm, stream, count, dtype}, output, 0, root);
  });
}
