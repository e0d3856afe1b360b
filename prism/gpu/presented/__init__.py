"""A GPU where there is none: programs that hard-code CUDA and NCCL run on CPU tensors that claim to be CUDA's.

Every tensor claims it, but for those that the program put on the host by name (`device="cpu"`, `.cpu()`); what torch
allocates in C++ cannot say whose it is. The claim ends at Python: kernels see CPU tensors, and compute what a CPU
computes. Streams are in order with the host, and CUDA's random numbers are the CPU generator's.

Names of torch are replaced, one by one. A torch function mode would be shorter, but is not active in backward passes.
"""

from __future__ import annotations

from prism.core.devices import MODELS


def present(model: str, capacity: int = 0) -> None:
    """Let this process believe that it has GPUs of the model, as many as its node has ranks; there is no way back.

    `capacity` is the memory in bytes that they are said to have; 0 for the model's own.
    """
    from prism.gpu.presented import (
        accelerator,
        autocast,
        distributed,
        memory,
        refused,
        rng,
        runtime,
        sharded_random,
        streams,
        tensors,
    )
    from prism.gpu.presented.placement import Placement

    chosen = MODELS[model]
    placement = Placement(chosen._replace(memory=capacity) if capacity else chosen)
    tensors.install(placement)
    rng.install(placement)
    sharded_random.install()
    streams.install(placement)
    memory.install(placement)
    runtime.install(placement)
    accelerator.install(placement)
    autocast.install()
    distributed.install()
    refused.install()
