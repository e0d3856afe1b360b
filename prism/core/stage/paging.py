"""Paging: before a rank is told anything that touches its memory, that is on the device, and others leave for it.

Whose turn is furthest leaves first: a rank whose program is over, then the one before whose turn most others have to
act, of those the one that blocked last. While a rank computes, the memory of the next in line comes back, if only ranks
have to leave for it whose turn is later.
"""

from __future__ import annotations

from collections.abc import Iterator

from prism.core.events import PagedIn, PagedOut, Pressed
from prism.core.instructions import Answer, AnyInstruction, Deliver, PageIn, PageOut, Room, Run
from prism.core.stage.crowding import Crowding
from prism.core.stage.ranks import Rank
from prism.core.stage.residency import MOVING, Place, Residency
from prism.core.stage.situation import Situation
from prism.core.stage.slots import Slots
from prism.core.stage.states import HOLDS_SLOT, State
from prism.core.stage.stuck import absent, awaited

TOUCH = (Answer, Deliver, Run)
"""What a rank is told that makes it use its memory."""
NOT_ALONE = (
    "ranks were refused memory of their device while others were in the middle of their turn there, and could not "
    "leave; set devices.slots to 1, and each has the device for itself, but while one is stopped so that others go on"
)
MAY_LEAVE = (State.BLOCKED, State.READY, State.FINISHING)
"""States in which nothing of a rank runs on the device, once the results it has been given are in its tensors."""


class Pager:
    """Decides, for one situation and its slots, what moves; what it says is taken by `said`."""

    def __init__(self, seen: Situation, slots: Slots, spills: bool) -> None:
        self.residency = Residency()
        self.broke = ""
        self._seen = seen
        self._slots = slots
        self._crowding = Crowding(self.residency, spills)
        self._said: list[AnyInstruction] = []
        self._short: set[int] = set()  # ranks that have asked in the turn in which they are
        self._alone: set[int] = set()  # ranks that were told to come when nobody else held anything there
        self._sent_back: set[int] = set()  # ranks for which there was no room, since anybody has left or been denied

    def passes(self, instruction: AnyInstruction) -> bool:
        """Whether the rank may be told now; if not, it is told once its memory is here."""
        if self.residency.here(instruction.rank) or not isinstance(instruction, TOUCH):
            return True
        self.residency.hold(instruction)
        return False

    def said(self) -> list[AnyInstruction]:
        """What is to be told since this was last asked."""
        said, self._said = self._said, []
        return said

    def hear(self, event: Pressed | PagedOut | PagedIn) -> None:
        """A rank waits for memory that the device does not have, or its memory has moved."""
        match event:
            case Pressed():
                self._pressed(event)
            case PagedOut():
                self._left(event)
            case PagedIn():
                self._came(event)

    def _pressed(self, event: Pressed) -> None:
        self._seen.ledger.open("page", event.rank)
        self._short.add(event.rank)
        self.residency.pressed(event)

    def _left(self, event: PagedOut) -> None:
        self._seen.ledger.close("page", event.rank)
        self.residency.left(event)
        self._crowding.waiting = None
        if event.error:
            self._stayed(event)
        elif event.disk:
            self._crowding.relieved()
        else:
            self._sent_back.clear()
            self._try_again(event.rank)

    def _stayed(self, event: PagedOut) -> None:
        """A rank could not leave the device, or go on to disk; on the device it hears what it was told meanwhile."""
        if self.residency.here(event.rank):
            self._said += self.residency.released(event.rank)
        spilled, why = self._crowding.refused(event, self._turns)
        early = next((rank for rank in self.residency.asking if self._is_early(rank)), None)
        if spilled is not None:
            self._send(spilled, Place.SPILLING, PageOut(rank=spilled, disk=True))
        elif why and event.full and early is not None:  # it goes back, and on to disk if need be
            self._crowding.waiting = event.rank
            self._answer(early, False)
        else:
            self.broke = why

    def _came(self, event: PagedIn) -> None:
        self._seen.ledger.close("page", event.rank)
        self.residency.came(event)
        self._crowding.waiting = None
        if event.error:
            self.broke = "" if event.full and event.rank not in self._alone else event.error
            self._sent_back.add(event.rank)
            self._try_again(event.rank)
            return
        self._crowding.relieved()
        self._said += self.residency.released(event.rank)
        for rank in self._crowding.come():
            if self._may_leave(self._seen.ranks[rank]):
                self._send(rank, Place.LEAVING, PageOut(rank=rank))

    def gone(self, rank: int) -> None:
        """A rank's process has ended; there may be room where it was."""
        self.residency.gone(rank)
        self._crowding.relieved()
        self._sent_back.clear()
        self._try_again(rank)

    def settle(self) -> None:
        """Say what has to move now."""
        if self.residency.quiet:
            return
        for rank in self._wanted():
            if self.residency.place(rank) in (Place.HOST, Place.DISK) and not self._bring(rank):
                break
        if self.residency.asking and all(rank in self.residency.asking for rank in self.residency.at(*MOVING)):
            self._serve()

    def in_the_way(self) -> int | None:
        """A rank that was stopped on a device and has to go on, for it cannot leave, before others get room; or None.

        They do not get any while nothing moves, and nobody who is there computes.
        """
        moving = self.residency.at(*MOVING)
        if self.residency.quiet or any(rank not in self.residency.asking for rank in moving):
            return None
        away = [rank for rank in self.residency.at(Place.HOST, Place.DISK) if self._state(rank) is State.RUNNING]
        for rank in (*self.residency.asking, *away):
            there = [other for other in self._beside(rank) if self.residency.still(other.rank)]
            if not any(self._acts(other) for other in there):
                stopped = [other.rank for other in there if other.state is State.STOPPED]
                if stopped:
                    return min(stopped, key=self._slots.place)
        return None

    # -- coming ------------------------------------------------------------------------------------------------------

    def _wanted(self) -> list[int]:
        """Ranks that are away and should come, the most urgent first."""
        away = self.residency.at(Place.HOST, Place.DISK)
        running = [rank for rank in away if self._state(rank) is State.RUNNING]
        if running:
            return running
        head = self._slots.head
        self._short = {rank for rank in self._short if self._state(rank) in HOLDS_SLOT}
        if head in away and not self._short and not self.residency.at(*MOVING):
            return [head]
        acts = any(rank.state in (State.RUNNING, State.LAUNCHING, State.READY) for rank in self._seen.ranks.values())
        if acts or self.residency.at(*MOVING):
            return []
        return [rank for rank in away if self.residency.holds(rank)][:1]  # a callback on a result may let others go on

    def _bring(self, rank: int) -> bool:
        """Let the rank come, and others leave for it; false if they cannot yet."""
        leaving, enough = self.residency.makes_room(rank, self._victims(rank))
        tried = rank in self._sent_back and self.residency.asking
        if not enough and (self._state(rank) is not State.RUNNING or self._others_move_on(rank) or tried):
            return False  # else it asks for what is missing, for sizes may have changed
        for victim in leaving:
            self._send(victim, Place.LEAVING, PageOut(rank=victim))
        beside = bool(self.residency.at(Place.LEAVING))
        (self._alone.discard if self._others_hold(rank) else self._alone.add)(rank)
        self._send(rank, Place.COMING, PageIn(rank=rank, beside=beside))
        return True

    # -- leaving -----------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Make room for ranks that ask; where nobody can leave, let those go on that can do without.

        Where nobody could ever leave, or nobody goes on before, one of the others is denied: one that is coming back,
        which gives back what it has got and tries again later; only if there is none, one in the middle of its program.
        """
        for rank in self.residency.asking:
            victim = next(self._victims(rank), None)
            if victim is not None:
                self._send(victim, Place.LEAVING, PageOut(rank=victim))
                return
        for rank in [rank for rank, needs in self.residency.asking.items() if not needs]:
            self._answer(rank, False)
        stuck = [rank for rank in self.residency.asking if not self._could_leave(rank) or self._keeps_others(rank)]
        if stuck:
            self._deny(min(stuck, key=self.residency.here))

    def _deny(self, rank: int) -> None:
        """There is no room for the rank; if it has not enough by itself either, its program runs out of memory."""
        running = any(other.state in HOLDS_SLOT for other in self._beside(rank))
        if running and self.residency.here(rank):
            self._seen.exchange.warnings.add("not_alone", NOT_ALONE, rank)
        self._answer(rank, False)

    def _victims(self, rank: int) -> Iterator[int]:
        """Ranks that may leave for another, the one whose turn is furthest first; none whose turn is before its own."""
        limit = self._turns(rank)
        could = [other for other in self._beside(rank) if self._may_leave(other)]
        later = sorted(((self._turns(other.rank), other.rank) for other in could), reverse=True)
        return (number for turns, number in later if turns > limit)

    def _may_leave(self, rank: Rank) -> bool:
        if rank.rank == self._crowding.waiting:
            return False
        return rank.state in MAY_LEAVE and self.residency.still(rank.rank) and not self._opened(rank)

    def _keeps_others(self, rank: int) -> bool:
        """Whether the rank comes before its turn and cannot, while nobody goes on who is on the device."""
        here = (other for other in self._seen.ranks.values() if self.residency.still(other.rank))
        return self._is_early(rank) and not any(self._acts(other) for other in here)

    def _is_early(self, rank: int) -> bool:
        """Whether a rank that is not on the device need not be there yet."""
        return not self.residency.here(rank) and self._state(rank) is not State.RUNNING

    def _could_leave(self, rank: int) -> bool:
        """Whether any other rank may be able to leave for this one later."""
        return any(self.residency.still(other.rank) for other in self._beside(rank) if other.alive)

    def _others_move_on(self, rank: int) -> bool:
        """Whether something moves, or another computes: more may be free soon."""
        acts = any(self._acts(other) for other in self._beside(rank) if self.residency.still(other.rank))
        return acts or bool(self.residency.at(*MOVING))

    def _acts(self, rank: Rank) -> bool:
        return rank.state in HOLDS_SLOT or (rank.state is not State.STOPPED and self._opened(rank))

    def _opened(self, rank: Rank) -> bool:
        """Whether the rank has results to copy, or inputs to bring."""
        return bool(self._seen.ledger.of("deliver", rank.rank) or self._seen.ledger.of("stage", rank.rank))

    def _others_hold(self, rank: int) -> bool:
        """Whether others have memory on the rank's device, or on its way there."""
        places = (Place.DEVICE, Place.LEAVING, Place.COMING)
        return any(self.residency.place(other.rank) in places for other in self._beside(rank) if other.alive)

    def _beside(self, rank: int) -> Iterator[Rank]:
        """The other ranks that have, or may have, the same device."""
        others = self._seen.ranks.values()
        return (other for other in others if other.rank != rank and self.residency.beside(rank, other.rank))

    def _try_again(self, beside: int) -> None:
        """Let those try that ask for room where a rank has made some, or may have."""
        for rank in [rank for rank in self.residency.asking if self.residency.beside(rank, beside)]:
            self._answer(rank, True)

    def _answer(self, rank: int, granted: bool) -> None:
        del self.residency.asking[rank]
        if self.residency.here(rank):  # one that is coming is still at it
            if not granted:
                self._sent_back.clear()
            self._seen.ledger.close("page", rank)
        self._said.append(Room(rank=rank, granted=granted))

    def _send(self, rank: int, to: Place, instruction: AnyInstruction) -> None:
        self._seen.ledger.open("page", rank)
        self.residency.move(rank, to)
        if to is Place.LEAVING:
            self._crowding.leaves(rank)
        self._said.append(instruction)

    # -- turns -------------------------------------------------------------------------------------------------------

    def _state(self, rank: int) -> State:
        return self._seen.ranks[rank].state

    def _turns(self, rank: int) -> tuple[int, int]:
        """How far away the turn of a rank is: rounds of others that have to act before it, then its place in line."""
        of = self._seen.ranks[rank]
        place = of.since if of.state is State.BLOCKED else self._slots.place(rank)  # who blocked last gets in line last
        return (self._rounds(rank, set()), place)

    def _rounds(self, rank: int, on_the_way: set[int]) -> int:
        state = self._state(rank)
        if state is State.FINISHING:
            return len(self._seen.ranks) + 1
        if state is not State.BLOCKED or rank in on_the_way:
            return 0
        on_the_way.add(rank)
        of = self._seen.ranks[rank]
        missing = {member for handle in awaited(of) for member in absent(self._seen, of, handle) if handle in of.open}
        return 1 + max((self._rounds(member, on_the_way) for member in sorted(missing)), default=0)
