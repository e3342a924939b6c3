"""Calls that make groups of ranks, and options of replicated models, on two processes with gloo."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradscope.analysis.ranks.collectives import grouped_calls
from gradscope.analysis.ranks.merging.merge import merged
from gradscope.analysis.report import inspect
from gradscope.trace.schema import Replicated
from tests.record.running import House
from tests.watch.called.ranks.test_works import called, ran

pytestmark = pytest.mark.torch

MAKING = """
every = dist.new_group(range(size))
alone = dist.new_group([rank], use_local_synchronization=True)
dist.all_reduce(torch.ones(2), group=alone)
dist.new_subgroups(1)
dist.all_reduce(torch.ones(2), group=every)
mesh = dist.init_device_mesh("cpu", (2, 1), mesh_dim_names=("data", "model"))
dist.all_reduce(torch.ones(2), group=mesh["data"].get_group())
if rank == 0:
    dist.new_group([0])  # PyTorch allows this, if no other group is made afterwards
dist.barrier()
"""
MODELS = """
net = nn.Linear(3, 2)
found = DistributedDataParallel(net, find_unused_parameters=True)
found(torch.ones(1, 3)).sum().backward()
kept = DistributedDataParallel(nn.Linear(3, 2), broadcast_buffers=False)
static = DistributedDataParallel(nn.Linear(3, 2), find_unused_parameters=True)
static._set_static_graph()
from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
apart = DistributedDataParallel(nn.Linear(3, 2))
dist.barrier()  # rows are written before it
apart.register_comm_hook(None, noop_hook)
kept(torch.ones(1, 3)).sum().backward()
"""


def test_calls_that_make_groups_are_recorded_with_their_members(tmp_path: Path) -> None:
    first, second = ran(House(tmp_path), MAKING)

    names = [(each.name, each.called.makes) for each in called(first) if "group" in each.name]
    assert names[:2] == [("new_group", (0, 1)), ("new_subgroups", ())]
    assert names[-1] == ("new_group", (0,))
    assert all(name == "new_group" and makes for name, makes in names[2:])
    assert names[:-1] == [
        (each.name, each.called.makes) for each in called(second) if "group" in each.name
    ]


def test_a_group_that_only_its_member_makes_is_no_finding_if_nobody_waits(tmp_path: Path) -> None:
    trace = merged(ran(House(tmp_path), MAKING))

    assert inspect(trace).findings == ()
    [of_world] = [group for group in grouped_calls(trace) if group.parted]
    assert [call and call.makes for call in of_world.parted.values()] == [(0,), None]


def test_options_of_replicated_models_are_recorded_when_they_are_used(tmp_path: Path) -> None:
    trace, _ = ran(House(tmp_path), MODELS)

    rows = list(trace.rows(Replicated))
    assert {(row.searches, row.broadcasts) for row in rows} == {(1, 1), (0, 0), (0, 1)}
    assert len(rows) == 3, "the model with a hook of its own is not one of them"
    assert all(trace.frames(row.stack)[0].function == "<module>" for row in rows)
