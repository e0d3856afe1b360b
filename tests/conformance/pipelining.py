"""Pipeline parallelism: every schedule of torch.distributed.pipelining."""

from __future__ import annotations

import torch
import torch.distributed as dist
from checking import check, main
from models import data, stack
from torch import nn
from torch.distributed import pipelining
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import PipelineScheduleMulti, PipelineScheduleSingle

MICROBATCHES = 8


def stages(numbers: list[int], count: int) -> list[PipelineStage]:
    blocks = stack(count)
    return [PipelineStage(blocks[number], number, count, torch.device("cpu")) for number in numbers]


def stepped(schedule: PipelineScheduleSingle | PipelineScheduleMulti, mine: list[PipelineStage]) -> object:
    """The losses of two steps where the last stage is, and the gradient's norm of each own stage."""
    x, target = data(0)
    numbers = [stage.stage_index for stage in mine]
    losses: list[torch.Tensor] = []
    for _ in range(2):
        inputs = (x,) if 0 in numbers else ()
        last = {"target": target, "losses": losses} if mine[0].num_stages - 1 in numbers else {}
        schedule.step(*inputs, **last)
    norms = [nn.utils.get_total_norm([p.grad for p in stage.submod.parameters()]).item() for stage in mine]
    return [[loss.item() for loss in losses], norms]


def single(kind: type[PipelineScheduleSingle]) -> object:
    mine = stages([dist.get_rank()], 4)
    return stepped(kind(mine[0], MICROBATCHES, loss_fn=nn.functional.mse_loss), mine)


def multiple(kind: type[PipelineScheduleMulti], numbers: list[int]) -> object:
    mine = stages(numbers, 8)
    return stepped(kind(mine, MICROBATCHES, loss_fn=nn.functional.mse_loss), mine)


def loop() -> list[int]:
    """The rank's stages where they go round."""
    return [dist.get_rank(), dist.get_rank() + 4]


def fold() -> list[int]:
    """The rank's stages where they come back, as the letter V."""
    return [dist.get_rank(), 7 - dist.get_rank()]


@check("pipelining, GPipe")
def gpipe() -> object:
    return single(pipelining.ScheduleGPipe)


@check("pipelining, 1F1B")
def one_forward_one_backward() -> object:
    return single(pipelining.Schedule1F1B)


@check("pipelining, Interleaved1F1B")
def interleaved() -> object:
    return multiple(pipelining.ScheduleInterleaved1F1B, loop())


@check("pipelining, LoopedBFS")
def looped() -> object:
    return multiple(pipelining.ScheduleLoopedBFS, loop())


@check("pipelining, InterleavedZeroBubble")
def zero_bubble() -> object:
    return multiple(pipelining.ScheduleInterleavedZeroBubble, loop())


@check("pipelining, ZBVZeroBubble")
def zero_bubble_v() -> object:
    return multiple(pipelining.ScheduleZBVZeroBubble, fold())


@check("pipelining, DualPipeV")
def dual_pipe() -> object:
    return multiple(pipelining.ScheduleDualPipeV, fold())


if __name__ == "__main__":
    main()
