// What each operation shows to others, at its beginning and at its end.

#pragma once

#include "job.h"
#include "team.h"

namespace pruned::device {

constexpr unsigned kTurnsBetweenDetours = 256;  // they are looked for in the host's memory
constexpr std::int64_t kSinkSize = 8 * 1024 * 1024;  // bytes, where what goes to virtual members ends

template <class Team>
PRUNED_HD void show_post(Team& team, const Shown& shown, std::int64_t op) {
  if (shown.posted != nullptr && op >= 0) {
    team.show(shown.posted + op, team.now());
  }
}

/// Who waits: whether what virtual members bring has come by a detour (detour.h); the leader says where it lies.
///
/// Leaders of other channels do the same, and the copy that is late may say another place meanwhile. So words of several
/// writers mix, and each is right: they are written whole, and what they point to is there before any of them is, until
/// the operation is over.
template <class Team>
PRUNED_HD bool take_detour(Team& team, Payload* payload, const Payload* detour) {
  if (detour == nullptr || team.load_shown(reinterpret_cast<const std::int64_t*>(&detour->ready)) == 0) {
    return false;
  }
  if (team.leads()) {
    const volatile Payload* came = detour;
    team.show(&payload->head, static_cast<const std::byte*>(came->head));
    team.show(&payload->tail, static_cast<const std::byte*>(came->tail));
    team.show(&payload->final, static_cast<const std::byte*>(came->final));
  }
  return true;
}

/// Who waits: until what virtual members bring is there; `tells` whether it was when it was first wanted.
template <class Team>
PRUNED_HD void await_payload(Team& team, Payload* payload, const Shown& shown, std::int64_t entry, bool tells) {
  Watch ready{&payload->ready, team.seen(&payload->ready)};
  if (tells && team.leads() && shown.looked != nullptr) {
    team.show(shown.looked + entry, ready.seen != 0 ? 1U : 2U);
  }
  const Payload* detour = shown.detours != nullptr ? shown.detours + entry : nullptr;
  for (unsigned turn = 1; ready.seen == 0 && !team.stopped(); ++turn) {
    team.settle();
    ready.seen = team.seen(ready.count);
    if (ready.seen == 0 && turn % kTurnsBetweenDetours == 0 && take_detour(team, payload, detour)) {
      return;
    }
    team.look(turn);
  }
}

/// The leader of each team: the last one of all shows what was moved, and, with the last launch, that it is over.
template <class Team>
PRUNED_HD void finish(Team& team, Progress& progress, std::uint32_t all, bool last, const Shown& shown, std::int64_t op,
                      std::int64_t entry, std::uint64_t number) {
  Tally& tally = progress.of(number);
  if (team.add(&tally.finished, std::uint32_t{1}) + 1 != all) {
    return;
  }
  tally.finished = 0;
  if (!last) {
    return;
  }
  std::uint64_t moved[3];  // on their way at one time
PRUNED_UNROLL
  for (int i = 0; i < 3; ++i) {
    moved[i] = team.take(&tally.moved[i]);
  }
PRUNED_UNROLL
  for (int i = 0; i < 3; ++i) {
    if (shown.moved != nullptr && op >= 0) {
      team.show(shown.moved + op * 3 + i, static_cast<std::int64_t>(moved[i]));
    }
  }
  progress.number = number + 1;
  if (shown.ended != nullptr) {
    team.show_last(shown.ended + entry, std::uint64_t{1});
  }
}

}  // namespace pruned::device
