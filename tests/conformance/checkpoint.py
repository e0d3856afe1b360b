"""Distributed checkpoints, written and read by all ranks."""

from __future__ import annotations

import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from checking import check, main
from models import sgd, stack, train
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor


def folder() -> str:
    """A folder that all ranks know."""
    given = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(given)
    return str(given[0])


def tensor(start: float) -> torch.Tensor:
    return distribute_tensor(torch.arange(start, start + 16), init_device_mesh("cpu", (4,)), [Shard(0)])


@check("DCP save, load")
def save_load() -> object:
    where = folder()
    dcp.save({"x": tensor(5.0), "step": 3}, checkpoint_id=where)
    found = {"x": tensor(0.0), "step": 0}
    dcp.load(found, checkpoint_id=where)
    return [found["x"].to_local(), found["step"]]


@check("DCP async_save")
def async_save() -> object:
    where = folder()
    dcp.async_save({"x": tensor(7.0)}, checkpoint_id=where, process_group=dist.new_group()).result()
    dist.barrier()
    found = {"x": tensor(0.0)}
    dcp.load(found, checkpoint_id=where)
    return found["x"].to_local()


@check("DCP of an FSDP2 model and its optimizer")
def model_state() -> object:
    where = folder()
    losses = []
    for kind in ("saved", "loaded"):
        model = fully_shard(stack(), mesh=init_device_mesh("cpu", (4,)))
        optimizer = torch.optim.AdamW(model.parameters())
        if kind == "saved":
            train(model, optimizer)
        weights, moments = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": moments}
        if kind == "saved":
            dcp.save(state, checkpoint_id=where)
        else:
            dcp.load(state, checkpoint_id=where)
            set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
        losses.append(train(model, sgd(model)))
    assert losses[0] == losses[1], losses
    return losses


if __name__ == "__main__":
    main()
