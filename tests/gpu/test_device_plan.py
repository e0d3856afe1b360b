"""What a device is told: its plan, when virtual members post, and both in the words of the engine's headers."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from prism.core.calls import Call
from prism.core.graph import OpKind
from prism.core.record import PostStep
from prism.gpu.emulation.device import abi
from prism.gpu.emulation.device.mark_times import MarkTimes
from prism.gpu.emulation.device.planned import Part, Partner, Plan, Planned, exchanged
from prism.gpu.emulation.device.releasing import chain_heads, ring_heads
from prism.gpu.emulation.virtual import VirtualRanks
from prism.gpu.pruned import Op, Pace, arcs
from prism.gpu.pruned.plans import release_times, sends_of_arc
from prism.net import releases
from prism.net.releases import Releases, entry_words, window_for
from tests.gpu.fake_cuda import FakeDriver

HEADERS = Path(__file__).parents[2] / "ext" / "nccl" / "cuda"
NOTHING = PostStep("default", 1, Call(OpKind.BARRIER), "")
LONG_AGO = -(1 << 60)
LATENCY, TRANSFER = 7_000, 90_000


def planned(kind: OpKind, count: int, root: int = -1) -> Planned:
    reduce = "sum" if kind in (OpKind.ALL_REDUCE, OpKind.REDUCE, OpKind.REDUCE_SCATTER) else "none"
    return Planned("g", 0, NOTHING, kind, "float32", LATENCY, TRANSFER, count, reduce, root)


def begun(op: Op, sandbox: tuple[int, ...], after: int, posts: np.ndarray) -> np.ndarray:
    """When each send of an arc would have begun, had nothing come in, as the engine of the host has it."""
    sends = sends_of_arc(op, sandbox, after)
    nothing_came = np.full(sends, LONG_AGO)
    told = release_times(op, sandbox, after, Pace(posts, LATENCY, TRANSFER), nothing_came)
    alone = release_times(op, sandbox, after, Pace(np.zeros(len(posts), np.int64), 0, TRANSFER), nothing_came)
    return told - alone


@pytest.mark.parametrize("kind", [OpKind.ALL_REDUCE, OpKind.REDUCE_SCATTER, OpKind.ALL_GATHER])
@pytest.mark.parametrize(("size", "sandbox", "after"), [(2, (0,), 0), (8, (1,), 1), (8, (1, 5), 5), (64, (0,), 0)])
def test_heads_of_rings_are_those_of_the_hosts_engine(
    kind: OpKind, size: int, sandbox: tuple[int, ...], after: int
) -> None:
    call = planned(kind, 4096 * size)
    op = Op(kind, size, "float32", call.reduce, -1, call.count)
    members = arcs(size, sandbox)[after]
    posts = np.random.default_rng(size).integers(10**9, 10**9 + 50_000, len(members))
    sends = sends_of_arc(op, sandbox, after)
    heads = ring_heads(posts, sends)
    latest = np.maximum.accumulate(heads + LATENCY * np.arange(len(heads)) // sends)  # as the device works it out
    last_hop = LATENCY // sends
    assert (latest[np.minimum(np.arange(sends), len(latest) - 1)] + last_hop).tolist() == begun(
        op, sandbox, after, posts
    ).tolist()


@pytest.mark.parametrize("kind", [OpKind.BROADCAST, OpKind.REDUCE])
@pytest.mark.parametrize("root", [2, 3, 6])
def test_the_head_of_a_chain_is_that_of_the_hosts_engine(kind: OpKind, root: int) -> None:
    size, sandbox, after = 8, (1,), 1
    call = planned(kind, 400_000, root)
    op = Op(kind, size, "float32", call.reduce, root, call.count)
    members = arcs(size, sandbox)[after]
    posts = np.random.default_rng(root).integers(10**9, 10**9 + 50_000, len(members))
    sends = sends_of_arc(op, sandbox, after)
    (head,) = chain_heads(call, size, members, posts, sends).tolist()
    party = Pace(posts, LATENCY, TRANSFER)
    first = release_times(op, sandbox, after, party, np.full(sends, LONG_AGO))[0]
    assert head + TRANSFER // (sends + size - 2) + LATENCY // (size - 1) == first


def test_an_entry_is_there_once_its_number_is(tmp_path: Path) -> None:
    told = Releases(tmp_path / "releases", 3)
    words = np.memmap(tmp_path / "releases", np.int64, "r")
    assert words[:3].tolist() == [releases.MAGIC, told.window, 3]
    told.tell(told.window + 1, np.array([5, 6]))
    at = releases.HEADER + entry_words(3)
    assert words[at : at + 4].tolist() == [told.window + 2, 2, 5, 6]


def test_entries_of_many_heads_are_fewer() -> None:
    assert window_for(entry_words(8)) == releases.LARGEST
    assert window_for(entry_words(8191)) * entry_words(8191) * 8 <= releases.ROOM
    assert window_for(entry_words(1 << 20)) == releases.SMALLEST


def test_the_headers_say_the_same_of_the_releases() -> None:
    text = (HEADERS / "releases.h").read_text()
    found = re.search(r"kReleasesMagic = (\S+);.*kHeaderWords = (\d+);", text, re.DOTALL)
    assert found is not None
    assert int(found[1].replace("'", ""), 16) == releases.MAGIC
    assert int(found[2]) == releases.HEADER


@pytest.mark.parametrize(
    ("name", "struct"),
    [
        ("setup", abi.Setup), ("part", abi.PartOfFile), ("partner", abi.Partner), ("op", abi.Op),
        ("report", abi.Report), ("figures", abi.Figures),
    ],
)  # fmt: skip
def test_structures_are_those_of_the_header(name: str, struct: type[ctypes.Structure]) -> None:
    text = re.sub(r"/\*.*?\*/", "", (HEADERS / "api.h").read_text(), flags=re.DOTALL)
    (body,) = re.findall(r"typedef struct \{([^}]*)\} prism_device_" + name + ";", text)
    fields = []
    for line in filter(None, (one.strip() for one in body.split(";"))):
        kind, names = line.removeprefix("const ").replace("* ", "*| ").split(" ", 1)
        fields += [(name.strip().partition("[")[0], kind.replace("|", "")) for name in names.split(",")]
    words = {
        ctypes.c_int32: "int32_t", ctypes.c_int64: "int64_t", ctypes.c_char_p: "char*", ctypes.c_double: "double",
        abi.PartOfFile: "prism_device_part", ctypes.POINTER(abi.Partner): "prism_device_partner*",
        ctypes.c_char * 128: "char", ctypes.c_char * 512: "char",
    }  # fmt: skip
    assert [(field[0], words[field[1]]) for field in struct._fields_] == fields


def test_a_planned_call_is_told_with_its_payloads_and_partners() -> None:
    partners = (Partner(3, True, 8), Partner(2, False, 16, Part("file", 4, 16)))
    call = Planned("g", 7, NOTHING, OpKind.ALL_TO_ALL, "int64", 1, 2, 3, partners=partners, final=Part("f", 1, 2))
    told = abi.Op.of(call, 9)
    assert (told.kind, told.op, told.entry, told.count, told.partners_size) == (OpKind.ALL_TO_ALL, 7, 9, 3, 2)
    assert told.head.path is None
    assert (told.final.path, told.final.offset, told.final.nbytes) == (b"f", 1, 2)
    assert [(one.peer, one.sends, one.payload.path) for one in told.partners[:2]] == [(3, 1, None), (2, 0, b"file")]


@pytest.mark.parametrize(("counts", "first"), [((2, 3, 1), 0), ((0, 3, 0), 1), ((0, 0, 4), 2)])
def test_of_an_uneven_gather_the_first_block_that_is_not_empty_is_shown(counts: tuple[int, ...], first: int) -> None:
    plan = object.__new__(Plan)
    plan.virtual = cast(VirtualRanks, SimpleNamespace(member=lambda _: 1, payloads=lambda _: {}))
    step = PostStep("default", 1, Call(OpKind.ALL_GATHER, dtype="float32", recv=counts), "")
    found = plan._one_by_one(Planned("g", 0, step, OpKind.ALL_GATHER, "float32", LATENCY, TRANSFER))
    assert [one.root for one in found if one.count and one.shown] == [first]
    assert all(one.uneven for one in found)


@pytest.mark.parametrize(
    ("call", "member", "expected"),
    [
        (Call(OpKind.ALL_TO_ALL, count=6), 0, ({0: 2, 1: 2, 2: 2}, {0: 2, 1: 2, 2: 2})),
        (Call(OpKind.GATHER, count=2, root=1, recv=(1, 2, 3)), 1, ({}, {0: 1, 1: 2, 2: 3})),
        (Call(OpKind.GATHER, count=2, root=1), 0, ({1: 2}, {})),
        (Call(OpKind.SCATTER, count=6, root=1), 1, ({0: 2, 1: 2, 2: 2}, {})),
        (Call(OpKind.SCATTER, count=2, root=1), 2, ({}, {1: 2})),
    ],
)
def test_who_exchanges_how_much_with_whom(call: Call, member: int, expected: object) -> None:
    assert exchanged(call, 3, member) == expected


def test_marks_are_told_as_the_device_comes_to_them() -> None:
    driver = FakeDriver()
    marks = MarkTimes(driver)
    for ms in (3.0, 10.0, 12.5):
        driver.ms = ms
        marks.mark()
    assert np.diff(marks.walls()).tolist() == [7_000_000, 2_500_000]


def test_a_mark_before_the_program_uses_the_device_leaves_all_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver()
    marks = MarkTimes(driver)
    monkeypatch.setattr(driver, "ready", lambda: False)
    marks.mark()
    monkeypatch.undo()
    marks.mark()
    assert marks.walls() == ()
