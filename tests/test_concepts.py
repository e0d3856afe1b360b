"""The pictures and tables of the documentation are those that the code works by.

python -m tests.test_concepts    writes them into their pages
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

import msgspec
import pytest

from prism.command.options import parser
from prism.core.stage.states import State, diagram
from prism.core.timeline.tree_links import tree_links
from prism.live.snapshot import LETTERS, NAMES
from prism.scenario import STAGES, Scenario
from prism.scenario.schema import LATER_BLOCKS

DOCS = Path(__file__).parents[1] / "docs"
NEVER_COUNT = ("prism", "path", "planned", "stages", "output", "launcher")
"""What no stage depends on."""


def what_runs_again() -> str:
    """Which stages a change in a key of the scenario undoes, as --resume sees it."""
    keys = [field.encode_name for field in msgspec.structs.fields(Scenario) if field.encode_name not in NEVER_COUNT]
    rows = [f"| {' | '.join(['changed', *STAGES])} |", f"|---|{'---|' * len(STAGES)}"]
    sets: dict[tuple[str, ...], list[str]] = {}
    for key in keys:
        again = tuple("runs again" if key not in LATER_BLOCKS.get(stage, ()) else "" for stage in STAGES)
        sets.setdefault(again, []).append(f"`{key}`")
    return "\n".join([*rows, *(f"| {', '.join(names)} | {' | '.join(again)} |" for again, names in sets.items())])


def two_trees(nodes: int = 4, per_node: int = 2) -> str:
    """The links of the two trees of an all_reduce of so many ranks."""
    of_rank = [rank // per_node for rank in range(nodes * per_node)]
    links = tree_links(of_rank).tolist()
    inside = links[: nodes * (per_node - 1)]
    between = links[2 * len(inside) :]
    lines = ["flowchart BT"]
    for tree, part in enumerate((between[: nodes - 1], between[nodes - 1 :])):
        lines.append(f"    subgraph tree{tree} [{('first', 'second')[tree]} half of the bytes]")
        lines += [f"        t{tree}r{below}([rank {below}]) --> t{tree}r{above}([rank {above}])"
                  for below, above in [*part, *inside]]  # fmt: skip
        lines.append("    end")
    return "\n".join(["```mermaid", *lines, "```"])


def states_of_the_live_view() -> str:
    """What the live view calls each state of a rank."""
    rows = {name: [state.value for state in State if LETTERS[state] == letter] for letter, name in NAMES.items()}
    told = [f"| {name} | {', '.join(states)} |" for name, states in rows.items()]
    return "\n".join(["| live view | states |", "|---|---|", *told])


def flags() -> str:
    """What the command takes."""
    rows = ["| flag | what |", "|---|---|"]
    for action in parser()._actions:
        value = f" {action.metavar}" if action.metavar and action.option_strings else ""
        name = ", ".join(f"`{flag}{value}`" for flag in action.option_strings) or f"`{action.metavar}`"
        rows.append(f"| {name} | {escape(action.help or '', quote=False)} |")
    return "\n".join(rows)


GENERATED = {
    "concepts.md": {
        "states": lambda: f"```mermaid\n{diagram()}```",
        "live": states_of_the_live_view,
        "again": what_runs_again,
        "trees": two_trees,
    },
    "reference/command-line.md": {"flags": flags},
}


def written(name: str) -> str:
    """A page with all that is generated as it is now."""
    text = (DOCS / name).read_text()
    for place, made in GENERATED[name].items():
        part = re.compile(rf"(?<=<!-- generated: {place} -->\n).*?(?=<!-- end -->)", re.DOTALL)
        assert part.search(text), f"{name} has no place for {place}"
        block = f"{made()}\n"
        text = part.sub(lambda _, block=block: block, text)  # type: ignore[misc]
    return text


@pytest.mark.parametrize("name", GENERATED)
def test_the_page_shows_what_the_tables_say(name: str) -> None:
    assert (DOCS / name).read_text() == written(name), "python -m tests.test_concepts writes it anew"


if __name__ == "__main__":
    for page in GENERATED:
        (DOCS / page).write_text(written(page))
