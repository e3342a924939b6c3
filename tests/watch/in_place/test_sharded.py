"""Tensors that are divided among ranks, in one process of a group that is only simulated."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from gradscope.analysis.answers.why_none import gradient_of
from gradscope.analysis.identity.sharding import Sharding
from gradscope.analysis.timing.spans import spans
from gradscope.scene.answers.grad_of import grad_of
from gradscope.scene.answers.registered_hooks import hooks
from gradscope.trace.schema import (
    Collective,
    Gathered,
    Place,
    ProcessGroup,
    Shard,
    Storage,
    Tensor,
    Value,
)
from gradscope.trace.trace import Trace
from gradscope.watch.in_place.sharded import is_sharded, local_part, placements_of
from tests.record.from_pytorch.watching import recorded

pytestmark = pytest.mark.torch


@pytest.fixture
def mesh() -> Iterator[Any]:
    """Two ranks; this is the first."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    try:
        yield init_device_mesh("cpu", (2,))
    finally:
        dist.destroy_process_group()


def divided(mesh: Any, dim: int = 0) -> Any:
    import torch
    from torch.distributed.tensor import Shard as Split, distribute_tensor

    return distribute_tensor(torch.arange(20.0).view(5, 4), mesh, [Split(dim)], src_data_rank=None)


def named(trace: Trace, name: str) -> Tensor:
    (found,) = (row for row in trace.rows(Tensor) if row.name == name)
    return found


def test_of_a_dtensor_there_is_this_ranks_part(mesh: Any) -> None:
    import torch

    whole, parts = torch.ones(2), divided(mesh)

    assert local_part(whole) is whole
    assert not is_sharded(whole)
    assert not is_sharded(3)
    assert is_sharded(parts)
    assert tuple(local_part(parts).shape) == (3, 4)
    assert placements_of(parts) == "Shard(0)"
    assert placements_of(parts.sum()) == "Partial"


def test_the_row_has_the_whole_shape_and_the_memory_of_the_part(mesh: Any) -> None:
    import torch

    def program() -> None:
        w = torch.nn.Parameter(divided(mesh))
        optimizer = torch.optim.SGD([w], lr=0.1)
        (w * w).sum().to_local().backward()
        optimizer.step()

    _, trace = recorded(program, "values")

    row = named(trace, "w")
    assert row.shape == (5, 4)
    assert row.bytes == 3 * 4 * 4
    assert trace.table(Storage).row(row.storage).bytes == row.bytes
    shard = trace.once(Sharding).shards[row.id]
    assert (shard.local, shard.placements) == ((3, 4), "Shard(0)")
    of_row = [each for each in trace.rows(Value) if each.tensor == row.id]
    seen = [each for each in of_row if each.place == Place.LEAF]
    assert {each.count for each in of_row} == {12}
    assert (seen[0].place, seen[0].max) == (Place.LEAF, 11.0)
    assert seen[-1].max == pytest.approx(11 - 0.1 * 22)  # after the step


def test_a_part_that_a_collective_still_fills_is_not_read(mesh: Any) -> None:
    import torch
    from torch.distributed._functional_collectives import AsyncCollectiveTensor

    from gradscope.watch.values.arrays import numbers

    class Waited(AsyncCollectiveTensor):  # type: ignore[misc, unused-ignore]
        def trigger_wait(self) -> Any:
            raise AssertionError("nothing may wait for it")

    parts = divided(mesh)
    assert numbers(parts) is not None
    parts._local_tensor = Waited(torch.ones(3, 4))

    assert numbers(parts) is None


def model(mesh: Any) -> Any:
    import torch
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
    return fully_shard(net, mesh=mesh)


def train(net: Any) -> None:
    import torch

    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        net(torch.ones(3, 4)).sum().backward()
        optimizer.step()


def test_a_gradient_is_followed_into_the_leaf_that_fsdp_fills(mesh: Any) -> None:
    _, trace = recorded(lambda: train(model(mesh)))

    parameter, leaf = named(trace, "0.weight"), named(trace, "gathered 0.weight")
    held = {row.leaf: row for row in trace.rows(Gathered)}
    assert held[leaf.id].parameters == (parameter.id,)
    assert held[leaf.id].names == ("0.weight",)
    assert len(held) == 4
    assert gradient_of(trace, parameter.id).brought == 2
    answer = grad_of(trace, str(parameter.id))
    assert answer.title.startswith("2 of 2 backwards sent 0.weight a gradient")
    assert dict(answer.facts)["gathered in"].startswith(f"tensor {leaf.id}")
    assert not any("skipped" in line for topic in answer.sections for line in topic.lines)


def test_a_flat_parameter_says_what_it_holds(mesh: Any) -> None:
    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel

    net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Linear(6, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrapped = FullyShardedDataParallel(net, device_id=torch.device("cpu"), use_orig_params=True)
        _, trace = recorded(lambda: train(wrapped))

    (row,) = trace.rows(Gathered)
    assert row.names == ("0.weight", "0.bias", "1.weight", "1.bias")
    assert trace.table(Tensor).row(row.leaf).name == "flat parameter of 0.weight … 1.bias"
    names = [trace.table(Tensor).row(each).name for each in row.parameters]
    assert [name.rpartition("module.")[2] for name in names] == [*row.names]
    assert all(gradient_of(trace, each).brought == 2 for each in row.parameters)


def test_hooks_of_fsdp_are_not_those_of_the_program(mesh: Any) -> None:
    def program() -> None:
        net = model(mesh)
        net[0].register_forward_hook(lambda *_: None)
        train(net)

    _, trace = recorded(program)

    answer = hooks(trace)
    assert answer.title.startswith("1 hook")
    (library,) = (topic for topic in answer.sections if "distributed" in topic.title)
    assert any("FSDPState._pre_forward" in line for line in library.lines)
    assert all(line.startswith("torch.distributed.fsdp.") for line in library.lines)


def test_a_collective_says_what_it_passes_and_among_which_ranks(mesh: Any) -> None:
    import torch
    import torch.distributed as dist

    def program() -> None:
        dist.all_reduce(torch.ones(2, 3))
        dist.all_gather([torch.ones(4, dtype=torch.int64)] * 2, torch.ones(4, dtype=torch.int64))
        dist.barrier()
        dist.reduce_scatter(torch.ones(1), input_list=[torch.ones(1)] * 2, group=mesh.get_group())

    _, trace = recorded(program)

    titles = [each.title for each in spans(trace)]
    assert titles == [
        "all_reduce [2, 3] float32, 2 ranks of default_pg",
        "all_gather [4] int64, 2 ranks of default_pg",
        "barrier 2 ranks of default_pg",
        titles[-1],
    ]
    assert titles[-1].startswith("reduce_scatter [1] float32, 2 ranks of ")


def test_a_send_and_a_receive_say_so(mesh: Any) -> None:
    import torch
    import torch.distributed as dist

    ours: list[Any] = []

    def program() -> None:
        dist.send(torch.ones(2, 3), 1)
        dist.recv(torch.ones(4), 1)
        sends = [dist.P2POp(dist.isend, torch.ones(2), 1), dist.P2POp(dist.irecv, torch.ones(2), 1)]
        for request in dist.batch_isend_irecv(sends):
            request.wait()
        try:
            dist.batch_isend_irecv(3)
        except (TypeError, ValueError) as error:
            ours.append(error)

    _, trace = recorded(program)

    assert [each.title for each in spans(trace)] == [
        "send [2, 3] float32, 2 ranks of default_pg",
        "recv 2 ranks of default_pg",
        "batch_isend_irecv, asynchronous 2 ranks of default_pg",
        "batch_isend_irecv, asynchronous 2 ranks of default_pg",
    ]
    assert len(ours) == 1
    assert not any("fault" in each for each in trace.meta.get("unseen", ()))


def test_a_functional_collective_says_so(mesh: Any) -> None:
    import torch
    import torch.distributed._functional_collectives as functional
    from torch.distributed.tensor import Replicate

    own = functional.all_reduce

    def program() -> None:
        assert functional.all_reduce is not own
        functional.all_reduce(torch.ones(3), "sum", mesh).wait()
        functional.all_reduce(torch.ones(3), "sum", (mesh, 0)).wait()
        divided(mesh).redistribute(placements=[Replicate()])

    _, trace = recorded(program)

    titles = [each.title for each in spans(trace)]
    assert len(titles) == 3
    assert all(title.startswith("functional ") for title in titles)
    assert titles[0].startswith("functional all_reduce, asynchronous [3] float32, 2 ranks of ")
    assert functional.all_reduce is own
    assert not any("fault" in each for each in trace.meta.get("unseen", ()))


def test_fsdp_calls_collectives(mesh: Any) -> None:
    _, trace = recorded(lambda: train(model(mesh)))

    rows = [*trace.rows(Collective)]
    assert len(rows) == 2 * 2  # a gathering, and a scattered sum, in each step
    assert {row.dtype for row in rows} == {"float32"}
    assert {row.members for row in trace.rows(ProcessGroup)} == {(0, 1)}
    assert all(row.shape for row in rows)


def test_other_tensors_have_no_row(mesh: Any) -> None:
    import torch

    _, trace = recorded(lambda: train(torch.nn.Linear(4, 2)))

    assert len(trace.table(Shard)) == len(trace.table(Gathered)) == 0
