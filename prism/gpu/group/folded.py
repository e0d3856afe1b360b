"""What differs on a rank whose peers do not all run: no group waits for all of them, and one rank tells their names."""

from __future__ import annotations

from typing import Any

import torch.distributed.distributed_c10d as c10d

from prism.gpu.rank.link import Link


def make_groups_alone(link: Link, names: bool) -> None:
    """From here on groups are made without their other members; with `names` those of others are told of, too.

    Every rank makes every group of the world, and numbers it, whether it is a member or not; so one rank knows what
    the groups are called that only ranks make which do not run.
    """
    c10d._is_barrier_after_init = lambda: 0  # TORCH_DIST_INIT_BARRIER: all ranks would have to count up a store key
    if not names:
        return
    plain = c10d._process_group_name

    def process_group_name(ranks: Any, use_hashed_name: bool) -> Any:
        name = plain(ranks, use_hashed_name)
        if ranks and not use_hashed_name and link.rank not in ranks:
            link.join(str(name), tuple(ranks), "")
        return name

    c10d._process_group_name = process_group_name
