"""What benchmarks.gpu_switch found, as a table: the figures that count, against what they are measured by."""

from __future__ import annotations

from benchmarks.training_ranks import GIB, Found


def table(found: dict[str, Found]) -> str:
    """The figures that count, against what they are measured by."""
    told = []
    pages, driver, wire, alone = (found.get(part, {}) for part in ("switch", "checkpoint", "rate", "pieces"))
    reached = wire.get("two", alone.get("copies", {}).get("whole", {}).get("gb_per_s"))
    if "two" in wire:
        told.append(f"PCIe: both ways at once {wire['two']:.1f} GB/s for two processes, {wire['both']:.1f} for one")
    if "copies" in alone:
        told += rows(alone)
    small = {f"{name}, small pages": build for name, build in found.get("small_pages", {}).get("builds", {}).items()}
    for name, build in {**pages.get("builds", {}), **small}.items():
        if "error" in build:
            told.append(f"{name}: {build['error'][:200]}")
            continue
        row = f"{name}: {build['bytes'] / GIB:.2f} GiB out {build['out_s']:.3f} s, back {build['back_s']:.3f} s; "
        row += f"one out while another comes in {build['duplex_s']:.3f} s, {build['gb_per_s']:.1f} GB/s, "
        row += f"on a full device {build['full_s']:.3f} s"
        told.append(row + (f"; {build['gb_per_s'] / reached:.1%} of PCIe" if reached else ""))
        for turn in ("duplex", "full"):
            told.append(f"    {'on a full device' if turn == 'full' else 'where there is room'}:")
            told += [row for way in ("out", "back") for row in spent(way, build[turn][way])]
            told.append(when_left(build[turn]["back"]))
    if "duplex_s" in pages and "out_s" in driver:
        out, back = min(driver["out_s"]), min(driver["back_s"])
        told.append(
            f"driver's checkpoint: out {out:.2f} s, back {back:.2f} s; {(out + back) / pages['duplex_s']:.1f} x"
        )
    return "\n".join(told)


def rows(found: Found) -> list[str]:
    """The table of the pieces."""
    told = []
    for kind, rate in found["copies"].items():
        ways = ", ".join(f"{way} {each:.1f}" for way, each in rate["ways"].items())
        told.append(f"copies of two processes, host memory {kind}: {rate['gb_per_s']:.1f} GB/s ({ways})")
    told.append(f"the same, shared, while a third gives and takes: {found['copies_beside_calls']['gb_per_s']:.1f} GB/s")
    told.append(f"us a call, alone: {each(found['calls'])}; of two: {each(found['calls_of_two'][0])}")
    return told


def each(moved: Found) -> str:
    """What one call of each kind took, in us."""
    return ", ".join(f"{kind} {ms / count * 1e3:.0f}" for kind, (count, ms) in moved["calls"].items())


def spent(way: str, moved: Found) -> list[str]:
    """Where one move's time went, in ms: on the host by the kind of call, and on the device."""
    calls = ", ".join(f"{kind} {ms:.1f} ({count})" for kind, (count, ms) in moved["calls"].items())
    other = moved["ns"] / 1e6 - sum(ms for _, ms in moved["calls"].values())
    told = [f"    {way} {moved['ns'] / 1e6:.1f} ms: {calls}; else {other:.1f}"]
    copying, starved = moved["copying"] / 1e6, moved["starved"] / 1e6
    if copying:  # builds before 2026-11-30 do not tell
        rate = moved["bytes"] / (copying - starved) / 1e6
        told.append(
            f"        first copy to last, on the device: {copying:.1f} ms, starved {starved:.1f}, else {rate:.1f} GB/s"
        )
    return told


def when_left(back: Found) -> str:
    """How far the one who comes was when the other had left: opening costs less after that."""
    mapped, ms = back["calls"]["map"][0], back["calls"]["open"][1]
    handles, opening = back["handles_when_left"], back["opening_when_left_ms"]
    return f"    the other had left at handle {handles} of {mapped}, after {opening:.1f} of {ms:.1f} ms of opening"
