"""What tensors, generators and streams of a GPU do, asserted piece by piece; prints a line when all of it holds."""

import copy
import io

import torch
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

GPU = torch.device("cuda", 0)


def places() -> None:
    for made in (
        torch.zeros(2, device="cuda"), torch.randn(2, device=0), torch.empty_like(torch.zeros(2), device=GPU),
        torch.nn.Linear(2, 2).cuda().weight, torch.nn.Linear(2, 2).to("cuda:0").weight, torch.zeros(2).new_ones(2),
        torch.empty(2, device="meta").new_zeros(2, device="cuda"), torch.cuda.FloatTensor([1.0, 2.0]),
    ):  # fmt: skip
        assert made.device == GPU, made
        assert made.is_cuda
    with GPU:
        assert torch.ones(2).device == GPU
    with torch.device("meta"):
        assert torch.ones(2).is_meta
    assert torch.ones(2, dtype=torch.float64, device="cuda").type() == "torch.cuda.DoubleTensor"
    assert torch.ones(2).type("torch.cuda.HalfTensor").dtype == torch.float16
    assert torch.ones(2).to(None, torch.float16).dtype == torch.float16


def moves() -> None:
    on_gpu = torch.zeros(4, device="cuda")
    on_host = on_gpu.cpu()
    on_host += 1
    assert on_gpu.sum() == 0, "a copy on the host is a copy"
    assert (on_host.device.type, on_host[1:].device.type, on_host.is_cuda) == ("cpu", "cpu", False)
    back = on_host.to("cuda", torch.float16, non_blocking=True)
    assert (back.device, back.dtype) == (GPU, torch.float16)
    again = on_host.cuda()
    on_host += 1
    assert again.sum() == 4, "and so is one on the GPU"
    assert on_gpu.cuda() is on_gpu
    assert on_host.to(on_gpu).device == GPU
    (batch,) = next(iter(DataLoader(TensorDataset(torch.ones(4)), batch_size=2, pin_memory=True)))
    assert batch.device.type == "cpu"


def files() -> None:
    layer = copy.deepcopy(torch.nn.Linear(2, 2).cuda())
    for target in ("cuda", "cuda:0", GPU, "cpu", None, lambda storage, _: storage.cuda()):
        file = io.BytesIO()
        torch.save(layer.state_dict(), file)
        file.seek(0)
        assert torch.equal(torch.load(file, map_location=target)["weight"], layer.weight)


def random_numbers() -> None:
    torch.cuda.manual_seed(3)
    first = torch.randn(4, device="cuda")
    state = torch.cuda.get_rng_state()
    second = torch.randn(4, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(torch.randn(4, device="cuda"), second)
    generator = torch.Generator(device="cuda").manual_seed(3)
    assert generator.device.type == "cuda"
    assert torch.equal(torch.randn(4, device="cuda", generator=generator), first)
    assert isinstance(torch.default_generator, torch.Generator)
    for reentrant in (True, False):
        inputs = torch.ones(64, device="cuda", requires_grad=True)
        output = checkpoint(torch.nn.functional.dropout, inputs, 0.5, use_reentrant=reentrant)
        output.sum().backward()
        assert torch.equal(inputs.grad, output.detach()), "the same elements are dropped when it is computed again"


def streams() -> None:
    side, outer = torch.cuda.Stream(priority=-1), torch.cuda.current_stream()
    with torch.cuda.stream(side):
        assert torch.cuda.current_stream() == side != outer
    assert torch.cuda.current_stream() == outer == torch.cuda.default_stream()
    with torch.cuda.device(0):
        assert torch.cuda.current_device() == 0
    event = outer.record_event()
    side.wait_event(event)
    assert event.query()


class Doubled(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx: object, given: torch.Tensor) -> torch.Tensor:
        assert not torch.is_autocast_enabled("cuda")
        return given * 2

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2


def precision() -> None:
    layer = torch.nn.Linear(4, 4).cuda()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        half = layer(torch.ones(2, 4, device="cuda"))
        assert (half.dtype, torch.get_autocast_dtype("cuda")) == (torch.bfloat16, torch.bfloat16)
        assert Doubled.apply(half).dtype == torch.float32
    assert not torch.is_autocast_enabled("cuda")
    assert torch.compile(layer)(torch.ones(2, 4, device="cuda")).device == GPU


def memory() -> None:
    before = torch.cuda.memory_allocated()
    block = torch.empty(1000, device="cuda")
    assert torch.cuda.memory_allocated() - before == 4096
    del block
    assert torch.cuda.max_memory_allocated() >= before + 4096
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == torch.cuda.memory_stats()["allocated_bytes.all.peak"] == before
    free, total = torch.cuda.mem_get_info()
    assert total - free == before
    assert "CUDA memory summary" in torch.cuda.memory_summary()


for part in (places, moves, files, random_numbers, streams, precision, memory):
    part()
    print(f"holds {part.__name__}", flush=True)
