// What else has to work on a GPU: graphs that are launched again, time that is kept, messages, a driver that is held.

#pragma once

namespace pruned::device::on_device {

/// A graph of two all_reduces, launched twice: each has the payload of its own number.
bool check_graph();
/// Operations that wait for payloads while cudaFree waits for them.
bool check_detour();
/// An all_reduce and a message whose virtual members post late: prints how far from their times they end.
bool check_paced();
/// Messages of one group call, to and from virtual members.
bool check_messages();

}  // namespace pruned::device::on_device
