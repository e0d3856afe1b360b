"""Capture on a GPU, with a fake one: what comes in which order on which stream, and who holds what until when."""

from __future__ import annotations

import gc
import threading
import weakref
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from prism.core.calls import Ref
from prism.core.events import Delivered, Posted, Staged, Waited
from prism.core.graph import OpKind
from prism.core.instructions import Deliver, Run
from prism.gpu.cuda.copies import Copier
from prism.net.payloads import Arena, Library
from tests.gpu.cuda_stage import on_stage
from tests.gpu.fake_cuda import FakeDriver


def floats(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def result(folder: Path, *values: float) -> Ref:
    """Bytes that a fold would have left."""
    return Arena(folder, f"folded-{values[0]}").put([memoryview(floats(*values).numpy())], 4 * len(values))


def test_a_post_is_told_at_once_and_its_input_when_it_is_there(tmp_path: Path) -> None:
    with on_stage(tmp_path) as stage:
        stage.group.allreduce([floats(1, 2)])
        posted, data = stage.staged()
        assert (posted.call.kind, posted.staged) == (OpKind.ALL_REDUCE, False)
        assert data == floats(1, 2).numpy().tobytes()


def test_inputs_come_in_the_order_of_their_posts_after_the_events_of_their_posts(tmp_path: Path) -> None:
    with on_stage(tmp_path) as stage:
        for value in (1.0, 2.0):
            stage.group.allreduce([floats(value)])
        assert [stage.staged()[1] for _ in range(2)] == [floats(v).numpy().tobytes() for v in (1.0, 2.0)]
        (stream,) = stage.driver.streams
        waits = [text for text in stream.log if text.startswith("waits")]
        assert waits == [f"waits for {text.removeprefix('marks ')}" for text in stage.driver.default.log]


def test_a_wait_lets_the_stream_wait_and_gives_the_inputs_up(tmp_path: Path) -> None:
    with on_stage(tmp_path) as stage:
        tensor = floats(1, 2)
        work = stage.group.allreduce([tensor])
        stage.staged()
        stage.line.say(Deliver(rank=0, handle=1, result=result(stage.record, 5, 6)))
        stage.line.hear(Delivered)
        assert work.stream == "c0"  # whoever takes from the future waits for the communicator's stream
        assert [one.data_ptr() for one in work.operation.stash] == [tensor.data_ptr()]
        before = len(stage.driver.default.log)
        work.wait()
        assert stage.line.hear(Waited).blocks is False
        assert stage.driver.default.log[before:] == [f"waits for c0:{len(stage.driver.streams[0].log) - 1}"]
        assert work.operation.stash == []
        assert tensor.tolist() == [5, 6]


def test_who_waits_before_the_result_goes_on_when_told_to(tmp_path: Path) -> None:
    with on_stage(tmp_path) as stage:
        tensor = floats(1)
        work = stage.group.allreduce([tensor])
        stage.staged()

        def coordinate() -> None:
            assert stage.line.hear(Waited).blocks
            stage.line.say(Deliver(rank=0, handle=1, result=result(stage.record, 7)), Run(rank=0))

        coordinator = threading.Thread(target=coordinate)
        coordinator.start()
        work.wait()
        coordinator.join()
        assert tensor.tolist() == [7]


def test_inputs_whose_future_alone_was_waited_for_are_held_until_the_next_of_the_kind(tmp_path: Path) -> None:
    with on_stage(tmp_path) as stage:
        tensor = floats(1)
        held = weakref.ref(tensor)
        work = stage.group.allreduce([tensor])
        stage.staged()
        stage.line.say(Deliver(rank=0, handle=1))
        stage.line.hear(Delivered)
        work.operation.wait_for_future()
        del tensor, work
        stage.group.barrier()
        gc.collect()
        assert held() is not None
        stage.group.allreduce([floats(2)])
        gc.collect()
        assert held() is None


def test_a_barrier_holds_its_token_and_waits_on_the_host(tmp_path: Path) -> None:
    with on_stage(tmp_path) as stage:
        work = stage.group.barrier()
        assert stage.line.hear(Posted).staged
        assert [tuple(one.shape) for one in work.operation.stash] == [(1,)]
        stage.line.say(Deliver(rank=0, handle=1))
        stage.line.hear(Delivered)
        work.wait()
        assert stage.driver.default.log[-1] == "drained"


def test_a_gather_into_a_list_goes_through_one_flat_tensor(tmp_path: Path) -> None:
    with on_stage(tmp_path) as stage:
        outputs = [torch.zeros(2), torch.zeros(2)]
        work = stage.group.allgather([outputs], [floats(1, 2)])
        stage.staged()
        assert [tuple(one.shape) for one in work.operation.outputs] == [(2, 2)]
        stage.line.say(Deliver(rank=0, handle=1, result=result(stage.record, 1, 2, 3, 4)))
        stage.line.hear(Delivered)
        work.wait()
        assert [one.tolist() for one in outputs] == [[1, 2], [3, 4]]


def test_what_premul_sum_multiplies_by_takes_no_memory_of_the_device(tmp_path: Path) -> None:
    with on_stage(tmp_path) as stage:
        stage.group.allreduce([floats(1, 2)], SimpleNamespace(reduceOp=dist._make_nccl_premul_sum(3.0)))
        assert stage.staged()[1] == floats(3, 6).numpy().tobytes()


def test_a_coalesced_sum_is_one_of_each_tensor(tmp_path: Path) -> None:
    with on_stage(tmp_path) as stage:
        work = stage.group.allreduce_coalesced([floats(1), floats(2, 3)])
        posts = [stage.staged() for _ in range(2)]
        assert [(posted.call.count, posted.batch) for posted, _ in posts] == [(1, 1), (2, 1)]
        assert [data for _, data in posts] == [floats(1).numpy().tobytes(), floats(2, 3).numpy().tobytes()]
        for posted, _ in posts:
            stage.line.say(Deliver(rank=0, handle=posted.handle))
            stage.line.hear(Delivered)
        assert work.done()


def test_the_bytes_of_an_input_are_told_where_ranks_are_compared(tmp_path: Path) -> None:
    with on_stage(tmp_path) as stage:
        stage.link.compares = True
        stage.group.allreduce([floats(1, 2)])
        assert stage.line.hear(Staged).checksum == zlib.crc32(floats(1, 2).numpy().tobytes())


def test_what_nccl_refuses_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with on_stage(tmp_path) as stage:
        with pytest.raises(ValueError, match="Tensors must be contiguous"):
            stage.group.allreduce([torch.zeros(2, 3).t()])
        stage.group.allreduce([torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last)])
        stage.staged()
        monkeypatch.setattr(stage.driver, "capturing", lambda: True)
        with pytest.raises(RuntimeError, match="inside a CUDA graph"):
            stage.group.allreduce([torch.zeros(2)])


def test_a_thread_that_goes_backward_is_the_program(tmp_path: Path) -> None:
    with on_stage(tmp_path) as stage:
        seen: list[int] = []
        leaf = torch.ones(1, requires_grad=True)
        leaf.register_hook(lambda gradient: seen.append(stage.link.thread()))
        thread = threading.Thread(target=lambda: (seen.append(stage.link.thread()), leaf.sum().backward()))
        thread.start()
        thread.join()
        assert seen == [thread.ident, threading.get_ident()]


def test_whoever_waits_for_the_whole_device_waits_for_what_nobody_has_waited_for(tmp_path: Path) -> None:
    with on_stage(tmp_path) as stage:
        waited, left = (stage.group.allreduce([floats(value)]) for value in (1, 2))
        for handle in (1, 2):
            stage.staged()
            stage.line.say(Deliver(rank=0, handle=handle, result=result(stage.record, handle)))
            stage.line.hear(Delivered)
        waited.wait()
        stage.link.settle()
        assert [stage.line.hear(Waited).handles for _ in range(2)] == [(1,), (2,)]
        stage.link.settle()
        left.wait()
        assert stage.line.hear(Waited).handles == (2,)  # and not once more by the second settling


@pytest.mark.parametrize("capacity", [3, 8, 1000])
def test_tensors_come_back_as_they_went(capacity: int, tmp_path: Path) -> None:
    driver, arena = FakeDriver(), Arena(tmp_path, "a")
    tensors = [torch.arange(5, dtype=torch.int16), torch.empty(0), torch.rand(2, 3, 4, 5).contiguous()]
    copier, nbytes = Copier(driver, capacity), sum(one.numel() * one.element_size() for one in tensors)
    ref = arena.reserve(nbytes)
    copier.save(tensors, arena, ref, driver.default)
    into = [torch.zeros_like(one) for one in tensors]
    copier.load(ref, Library(tmp_path), into, (), (), driver.default)
    assert all(torch.equal(a, b) for a, b in zip(tensors, into, strict=True))


def test_blocks_leave_the_rest_of_their_room_as_it_was(tmp_path: Path) -> None:
    driver = FakeDriver()
    into = torch.full((5,), 9.0)
    Copier(driver).load(result(tmp_path, 1, 2, 3), Library(tmp_path), [into], (4, 8), (2, 3), driver.default)
    assert into.tolist() == [1, 9, 2, 3, 9]
