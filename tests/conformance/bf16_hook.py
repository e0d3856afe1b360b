"""DDP's bfloat16 hook, which asks torch for the version of NCCL."""

from __future__ import annotations

from checking import check, main
from models import sgd, stack, train
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel


@check("DDP, bf16_compress_hook")
def bf16() -> object:
    model = DistributedDataParallel(stack())
    model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    return train(model, sgd(model))


if __name__ == "__main__":
    main()
