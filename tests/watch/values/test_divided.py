"""Results and gradients that are DTensors: their values are those of this rank's part."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradscope.analysis.identity.sharding import Sharding
from gradscope.analysis.report import inspect
from gradscope.trace.schema import Op, Place, Shard, Tensor, Value
from gradscope.trace.trace import Trace
from tests.record.from_pytorch.watching import recorded
from tests.record.running import House
from tests.watch.called.ranks.test_works import ran
from tests.watch.in_place.test_sharded import divided, mesh
from tests.watch.values.test_reachable import distributed, others, quietly

pytestmark = pytest.mark.torch

__all__ = ["mesh"]


def results(trace: Trace) -> dict[str, Value]:
    """The values of the first result of each call that created a node, by name."""
    ops = {row.id: row.name for row in trace.rows(Op)}
    return {
        ops[row.op]: row
        for row in trace.rows(Value)
        if row.place == Place.OP_OUTPUT and row.index == 0
    }


def squares(mesh: Any) -> Callable[[], None]:
    import torch

    def program() -> None:
        w = torch.nn.Parameter(divided(mesh))
        w.square().neg().sum().to_local().backward()

    return program


def test_results_have_the_values_and_the_shape_of_this_ranks_part(mesh: Any) -> None:
    _, trace = recorded(squares(mesh), "values")

    found, shards = results(trace), trace.once(Sharding).shards
    assert {name: (found[name].count, found[name].min) for name in ("pow", "neg", "sum")} == {
        "pow": (12, 0.0),
        "neg": (12, -121.0),
        "sum": (1, -506.0),
    }
    square = shards[found["pow"].tensor]
    assert (square.local, square.placements) == ((3, 4), "Shard(0)")
    assert shards[found["sum"].tensor].placements == "Partial"
    row = trace.table(Tensor).row(found["pow"].tensor)
    assert (row.shape, row.bytes) == ((5, 4), 3 * 4 * 4)


def test_gradients_on_their_way_are_measured(mesh: Any) -> None:
    _, trace = recorded(squares(mesh), "values")

    taken = [row for row in trace.rows(Value) if row.place == Place.NODE_INPUT]
    parts = [(row.min, row.max) for row in taken if row.count > 1]
    assert parts == [(1.0, 1.0), (-1.0, -1.0), (-22.0, 0.0)]  # of neg, square and the leaf


def test_a_divided_tensor_has_one_row_and_a_leaf_is_measured_once(mesh: Any) -> None:
    _, trace = recorded(squares(mesh), "values")

    tensors = [row.tensor for row in trace.rows(Shard)]
    leaves = [row for row in trace.rows(Value) if row.place == Place.LEAF and row.count == 12]
    assert len(tensors) == len(set(tensors)) >= 4
    assert [row.max for row in leaves] == [11.0]


def test_a_nan_in_a_part_has_its_origin_and_its_index_in_the_part(mesh: Any) -> None:
    import torch

    def program() -> None:
        w = torch.nn.Parameter(divided(mesh))
        (w - 3).log().sum().to_local().backward()

    _, trace = recorded(program, "values")

    said = [each.message for each in inspect(trace).findings]
    part = "3 NaN and 1 −Inf among 12 elements, first at index (0, 0) of the part on this rank"
    assert any(part in message for message in said), said


def test_parts_that_cannot_be_read_are_counted() -> None:
    import torch
    from torch.distributed._functional_collectives import AsyncCollectiveTensor

    from gradscope.watch.in_place.faults import Faults
    from gradscope.watch.values.divided import PartsOfTensors
    from gradscope.watch.values.ring import Ring

    class Waited(AsyncCollectiveTensor):  # type: ignore[misc, unused-ignore]
        def trigger_wait(self) -> Any:
            raise AssertionError("nothing may wait for it")

    tensors, filling = quietly(others), distributed()
    whole = tensors.pop("dtensor")
    filling._local_tensor = Waited(torch.ones(2, 4))
    cdata, ring = torch.Tensor._cdata, Ring()
    ring.parts = PartsOfTensors(Faults())
    ring.start()
    try:
        for tensor in (*tensors.values(), filling, whole):
            with torch._C.DisableTorchFunction():
                ring.look(0, 0, 0, 0, 0, 0, 0, cdata.__get__(tensor))
    finally:
        ring.stop()
    rows, _, _ = ring.read()
    assert ring.columns(rows).size.tolist() == [8]
    assert ring.unread == len(tensors) + 1
    assert [part.placements for part in ring.parts.known] == ["Shard(0)"]


TRAINING = """
from torch.distributed.tensor import Shard, distribute_tensor
mesh = dist.init_device_mesh("cpu", (2,))
torch.manual_seed(0)
w = nn.Parameter(distribute_tensor(torch.arange(20.0).view(5, 4), mesh, [Shard(0)]))
hidden = w.square()
loss = hidden.sum().full_tensor()
loss.backward()
"""


@pytest.mark.slow
def test_each_rank_of_a_group_has_its_own_part(tmp_path: Path) -> None:
    first, second = (results(trace)["pow"] for trace in ran(House(tmp_path), TRAINING))

    assert (first.count, first.min, first.max) == (12, 0.0, 121.0)
    assert (second.count, second.min, second.max) == (8, 144.0, 361.0)
