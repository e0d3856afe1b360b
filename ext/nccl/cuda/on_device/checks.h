// The engine on a GPU against rings of N real ranks on a CPU, bit for bit.

#pragma once

namespace pruned::device::on_device {

/// One sandbox member; `mode` of contribution; `size` 0: of several groups. Whether all was equal.
bool check_single(int mode, int size);
/// Two sandbox members, each a process, whose FIFOs are exchanged.
bool check_pair();

}  // namespace pruned::device::on_device
