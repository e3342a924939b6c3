"""Programs whose backwards run on a device's thread, alone and recorded.

They run on a device of the CPU wheel (`programs/numpy_device.py`) and on a GPU if there is one, or
on the devices that DEVICES of the environment names.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from gradscope.analysis.findings import Severity
from gradscope.analysis.report import inspect
from gradscope.trace.load_save import load
from gradscope.trace.schema import (
    Device,
    DeviceTime,
    GraphTask,
    HookBegin,
    Node,
    NodeBegin,
    NodeEnd,
    Pop,
    Push,
    ReentrantEnter,
    Tensor,
    Thread,
    Wait,
    Wake,
)
from gradscope.trace.schema.declare import NONE
from gradscope.trace.schema.tables import Order
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from tests.record.running import House

pytestmark = pytest.mark.torch

PROGRAMS = Path(__file__).parent / "programs"
WAYS = ("engine", "engine --no-native", "values")


@cache
def devices() -> list[str]:
    import torch
    import torch.utils.backend_registration as registration

    named = os.environ.get("DEVICES", "").split()
    if named:
        return named
    here = hasattr(registration, "_setup_privateuseone_for_python_backend")
    return ["npy"] * here + ["cuda"] * torch.cuda.is_available()


def of_several() -> list[str]:
    """The kinds of devices of which there are two or more."""
    import torch

    there = hasattr(torch, "accelerator") and torch.accelerator.device_count() > 1
    return [each for each in devices() if each != "npy"] if there else []


def recorded(
    folder: Path, name: str, *arguments: str, ways: tuple[str, ...] = WAYS,
    on: Sequence[str] | None = None,
) -> Iterator[tuple[str, Trace]]:  # fmt: skip
    """The traces of a program, which ends as it ends alone, on each device."""
    script = str(PROGRAMS / f"{name}.py")
    for device in devices() if on is None else on:
        house, env = House(folder), {"DEVICE": device}
        alone = house.python(script, *arguments, env=env)
        assert alone.code == 0, alone.err
        for way in ways:
            ran = house.gradscope(
                "trace", "--on", "torch", "-q", "-o", "trace.json", "--level", *way.split(), script,
                *arguments, env=env,
            )  # fmt: skip
            assert (ran.code, ran.out, ran.err) == (0, alone.out, alone.err), way
            trace = load(folder / "trace.json")
            assert check(trace) == []
            assert findings(trace) == []
            assert way.startswith("graph") or orders(trace) == {Order.FORETOLD}
            yield device, trace


def threads(trace: Trace) -> dict[int, str]:
    return {row.id: row.name for row in trace.rows(Thread)}


def orders(trace: Trace) -> set[int]:
    return {row.order for row in trace.rows(GraphTask)}


def findings(trace: Trace) -> list[str]:
    return [each.message for each in inspect(trace).findings if each.severity > Severity.NOTE]


def test_backwards_of_several_callers_share_the_device(tmp_path: Path) -> None:
    for device, trace in recorded(tmp_path, "callers"):
        assert len(trace.table(NodeBegin)) == 3 * 10 * 8
        assert f"{device}:0" in threads(trace).values()


def test_level_graph_does_not_start_or_follow_the_devices_thread(tmp_path: Path) -> None:
    for _, trace in recorded(tmp_path, "model", ways=("graph", "graph --no-native")):
        assert len(trace.table(GraphTask)) == 4


def test_each_node_runs_on_the_thread_of_its_gradients(tmp_path: Path) -> None:
    for device, trace in recorded(tmp_path, "model"):
        names = {row.id: row.name for row in trace.rows(Device)}
        of = {row.id: names.get(row.device, "") for row in trace.rows(Tensor)}
        on = {row.id: {of[each] for each in row.inputs if each in of} for row in trace.rows(Node)}
        ran = defaultdict(set)
        for begin in trace.rows(NodeBegin):
            ran[threads(trace)[begin.thread]] |= on[begin.node]
        assert ran == {"MainThread": {"cpu"}, f"{device}:0": {f"{device}:0"}}
        assert len(trace.table(NodeBegin)) == len(trace.table(NodeEnd)) == 4 * 24


def test_nodes_are_pushed_from_one_thread_to_the_queue_of_the_other(tmp_path: Path) -> None:
    for device, trace in recorded(tmp_path, "model", ways=WAYS[:2]):
        names = threads(trace)
        nodes = [row for row in trace.rows(Push) if row.node != NONE]
        ways = {(names[row.thread], names[row.queue]) for row in nodes}
        here, there = "MainThread", f"{device}:0"
        assert ways == {(here, here), (here, there), (there, there), (there, here)}
        assert {(names[row.thread], names[row.queue]) for row in trace.rows(Pop)} == {
            (here, here),
            (there, there),
        }


def test_the_caller_sleeps_until_the_device_has_work_for_it(tmp_path: Path) -> None:
    for device, trace in recorded(tmp_path, "whole"):
        names = threads(trace)
        slept = [names[row.thread] for row in trace.rows(Wait)]
        woke = [names[row.thread] for row in trace.rows(Wake)]
        assert slept.count("MainThread") == woke.count("MainThread") == 3
        assert slept.count(f"{device}:0") == 3
        empty = [row for row in trace.rows(Push) if row.node == NONE]
        assert [(names[row.thread], names[row.queue]) for row in empty] == [
            (f"{device}:0", "MainThread")
        ] * 3


def test_hooks_on_the_device_belong_to_their_nodes(tmp_path: Path) -> None:
    for device, trace in recorded(tmp_path, "hooks"):
        kinds = {row.id: row.name for row in trace.rows(Node)}
        called = sorted(
            (row.name, kinds[row.node], threads(trace)[row.thread]) for row in trace.rows(HookBegin)
        )
        assert called == sorted(
            2
            * [
                ("doubled", "TanhBackward0", f"{device}:0"),
                ("before", "TanhBackward0", f"{device}:0"),
                ("after", "TanhBackward0", f"{device}:0"),
                ("arrived", "AccumulateGrad", "MainThread"),
            ]
        )


def test_nodes_that_a_backward_creates_on_the_device_belong_to_it(tmp_path: Path) -> None:
    for device, trace in recorded(tmp_path, "functions"):
        made = {
            (row.task, threads(trace)[row.thread]) for row in trace.rows(Node) if row.task != NONE
        }
        creating = {row.id for row in trace.rows(GraphTask) if row.create_graph}
        assert made == {(*creating, f"{device}:0")}


def test_a_backward_that_the_device_calls_is_inside_the_other_one(tmp_path: Path) -> None:
    for device, trace in recorded(tmp_path, "nested"):
        tasks = [
            (row.parent, row.depth, threads(trace)[row.thread]) for row in trace.rows(GraphTask)
        ]
        assert tasks == [
            (-1, 0, "MainThread"), (1, 1, f"{device}:0"),
            (-1, 0, "MainThread"), (3, 1, f"{device}:0"),
        ]  # fmt: skip
        assert len(trace.table(ReentrantEnter)) == 2


def test_an_error_on_the_device_is_that_of_its_node(tmp_path: Path) -> None:
    for _, trace in recorded(tmp_path, "errors"):
        kinds = {row.id: row.name for row in trace.rows(Node)}
        failed = [kinds[row.node] for row in trace.rows(NodeEnd) if row.failed]
        assert failed == ["RaisesBackward", "RaisesBackward", "TanhBackward0"]


def test_any_order_of_two_threads_is_explained(tmp_path: Path) -> None:
    for _, trace in recorded(tmp_path, "mixed", "40", ways=WAYS[:2]):
        assert len(trace.table(GraphTask)) == 40


def test_each_of_two_devices_has_a_thread_and_a_queue(tmp_path: Path) -> None:
    for device, trace in recorded(tmp_path, "several", on=of_several()):
        here = {f"{device}:0", f"{device}:1"}
        assert {threads(trace)[row.thread] for row in trace.rows(NodeBegin)} == here
        assert len(trace.table(NodeBegin)) == 4 * 12
        if trace.meta["level"] == "engine":
            assert {threads(trace)[row.queue] for row in trace.rows(Pop)} >= here
            of = {row.id: row.name for row in trace.rows(Device)}
            assert [of[row.device] for row in trace.rows(DeviceTime)] == [f"{device}:1"] * 4


@pytest.mark.parametrize(("arguments", "many"), [((), 3), (("dies",), 1)])
def test_backwards_are_measured_on_their_device(
    tmp_path: Path, arguments: tuple[str, ...], many: int
) -> None:
    on = [each for each in devices() if each == "npy"]
    for _, trace in recorded(tmp_path, "simulated/timed", *arguments, ways=WAYS[:2], on=on):
        tasks = [row.id for row in trace.rows(GraphTask)]
        took = [(row.task, row.took, row.since) for row in trace.rows(DeviceTime)]
        assert took == [(task, 8_000_000, NONE if task == tasks[0] else 10_000_000)
                        for task in tasks[:many]]  # fmt: skip
