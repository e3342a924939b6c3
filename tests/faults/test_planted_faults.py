"""Faults planted in the engine and the recorder: the detectors catch every one.

A new fault is one entry: its name says what is wrong, the function plants it.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import Any

import numpy as np
import pytest

import gradscope.runtime as torch
from gradscope.record import catalog, native, session
from gradscope.runtime import in_place, saved, views
from gradscope.runtime.autograd import (
    accumulate_grad,
    engine,
    evaluate,
    grad_mode,
    graph_task,
    hooks,
    input_buffer,
    roots,
    validate,
)
from gradscope.runtime.operation import REGISTRY
from gradscope.runtime.storage import VersionCounter
from gradscope.trace.shorthand import runs
from tests.faults.detectors import DETECTORS

Plant = Callable[[pytest.MonkeyPatch], None]

FAULTS: dict[str, Plant] = {}


def fault(plant: Plant) -> Plant:
    FAULTS[plant.__name__.replace("_", " ")] = plant
    return plant


def derivative(
    monkeypatch: pytest.MonkeyPatch, op: str, change: Callable[[list[Any]], None]
) -> None:
    """Change what the node of an operation returns."""
    cls: Any = REGISTRY[op].node_class
    for name in ("run_arrays", "run_tensors"):
        right = getattr(cls, name)

        def wrong(node: Any, grads: Any, right: Any = right) -> Any:
            found = list(right(node, grads))
            change(found)
            return tuple(found)

        monkeypatch.setattr(cls, name, wrong)


@fault
def a_wrong_sign_in_a_derivative(monkeypatch: pytest.MonkeyPatch) -> None:
    def flip(found: list[Any]) -> None:
        found[1] = None if found[1] is None else -found[1]

    derivative(monkeypatch, "sub", flip)


@fault
def a_derivative_of_the_wrong_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def swap(found: list[Any]) -> None:
        if found[0] is not None and found[1] is not None:
            found[0], found[1] = found[1], found[0]

    derivative(monkeypatch, "mul", swap)


@fault
def a_gradient_that_is_not_cloned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulate_grad, "owns", lambda array: True)
    monkeypatch.setattr(accumulate_grad, "getrefcount", lambda thing: 0)


@fault
def a_sum_into_memory_others_see(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_buffer, "getrefcount", lambda thing: input_buffer.ALONE)


@fault
def a_count_off_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    right = engine.Engine.compute_dependencies

    def wrong(self: Any, root: Any, task: Any, lowest: int) -> None:
        right(self, root, task, lowest)
        for node in task.dependencies:
            if task.dependencies[node] > 1:
                task.dependencies[node] -= 1
                break

    monkeypatch.setattr(engine.Engine, "compute_dependencies", wrong)


@fault
def a_forgotten_version_bump(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(target: Any) -> None:
        target._versions = target._versions or VersionCounter()

    monkeypatch.setattr(in_place, "count_write", wrong)
    for operation in REGISTRY.values():
        if operation.plan.kind == "inplace":
            monkeypatch.setitem(operation.full.__globals__, "count_write", wrong)


@fault
def the_oldest_node_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(heap: list[Any], item: Any) -> None:
        heappush(heap, (-item[0], *item[1:]))

    monkeypatch.setattr(evaluate, "heappush", wrong)


@fault
def a_gradient_sent_to_the_wrong_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate, "sum_to_shape", lambda array, shape: np.zeros(shape, array.dtype))


@fault
def nothing_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        graph_task.GraphTask, "keep_graph", property(lambda self: True, lambda self, value: None)
    )


@fault
def everything_is_released_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        graph_task.GraphTask, "keep_graph", property(lambda self: False, lambda self, value: None)
    )


@fault
def a_stale_value_that_nobody_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved, "modified", lambda *what: None)


@fault
def a_hook_that_is_called_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    right = hooks.run_tensor_hooks

    def wrong(task: Any, node: Any, found: Any, nr: int, value: Any, raw: bool) -> Any:
        right(task, node, found, nr, value, raw)
        return right(task, node, found, nr, value, raw)

    monkeypatch.setattr(evaluate, "run_tensor_hooks", wrong)


@fault
def a_replaced_gradient_that_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    right = hooks.run_tensor_hooks

    def wrong(task: Any, node: Any, found: Any, nr: int, value: Any, raw: bool) -> Any:
        right(task, node, found, nr, value, raw)
        return value

    monkeypatch.setattr(evaluate, "run_tensor_hooks", wrong)


@fault
def a_pre_hook_that_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "run_pre_hooks", lambda task, node, found, values, raw: values)


@fault
def a_post_hook_that_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        evaluate, "run_post_hooks", lambda task, node, found, outputs, inputs, raw: outputs
    )


@fault
def a_capture_at_the_wrong_place(monkeypatch: pytest.MonkeyPatch) -> None:
    right = evaluate.keep

    def wrong(task: Any, node: Any, inputs: list[Any], entry: Any) -> None:
        right(task, node, inputs, entry)
        task.captured_vars.reverse()

    monkeypatch.setattr(evaluate, "keep", wrong)


@fault
def nodes_that_nobody_needs_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.Engine, "init_to_execute", lambda *what: None)


@fault
def a_write_that_leaves_the_base_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(target: Any, node: Any) -> None:
        target._edge = (node, 0)

    for operation in REGISTRY.values():
        if operation.plan.kind == "inplace":
            monkeypatch.setitem(operation.full.__globals__, "rebase_history", wrong)


@fault
def a_view_that_keeps_its_old_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "view_edge", lambda view, meta: meta.edge)


@fault
def a_leaf_that_can_be_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    for operation in REGISTRY.values():
        if operation.plan.kind == "inplace":
            monkeypatch.setitem(operation.full.__globals__, "check_inplace", lambda *what: None)


@fault
def a_grad_mode_that_is_not_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grad_mode._GradMode, "__exit__", lambda self, *error: None)


@fault
def a_seed_that_is_two(monkeypatch: pytest.MonkeyPatch) -> None:
    right = roots._implicit

    def wrong(root: Any) -> Any:
        seed = right(root)
        return seed if seed is None else seed * 2

    monkeypatch.setattr(roots, "_implicit", wrong)


@fault
def an_old_gradient_that_is_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    right = accumulate_grad.AccumulateGrad._accumulate_array

    def wrong(self: Any, grad: Any, *, alone: bool) -> int:
        self.variable._meta.grad = None
        return right(self, grad, alone=alone)

    monkeypatch.setattr(accumulate_grad.AccumulateGrad, "_accumulate_array", wrong)


@fault
def a_dropped_event(monkeypatch: pytest.MonkeyPatch) -> None:
    right = native.NativeProbe.__init__

    def wrong(self: Any, *what: Any) -> None:
        right(self, *what)
        noted, told = self.sent, []

        def sent(*what: Any) -> None:
            told.append(what)
            if len(told) != 3:
                noted(*what)

        self.sent = sent

    monkeypatch.setattr(native.NativeProbe, "__init__", wrong)


@fault
def a_queue_length_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    right = native.NativeProbe.__init__

    def wrong(self: Any, *what: Any) -> None:
        right(self, *what)
        noted = self.sent
        self.sent = lambda *what: noted(*what[:-1], [*what[-1], None])

    monkeypatch.setattr(native.NativeProbe, "__init__", wrong)


@fault
def an_edge_to_the_wrong_node(monkeypatch: pytest.MonkeyPatch) -> None:
    right = catalog.Catalog.accumulator

    def wrong(self: Any, node: Any) -> None:
        right(self, node)
        tensor, since, _, output = self.origins.pop()
        self.origins.append((tensor, since, self.base, output))

    monkeypatch.setattr(catalog.Catalog, "accumulator", wrong)


@fault
def events_out_of_order(monkeypatch: pytest.MonkeyPatch) -> None:
    right = runs._placed
    monkeypatch.setattr(runs, "_placed", lambda key, count: right(-key, count))


@fault
def a_task_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native.NativeProbe, "task_end", lambda self, task: None)


@fault
def a_window_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.Session, "_engine", lambda self: None)


def caught() -> list[str]:
    """The detectors that notice something."""
    found = []
    for detector in DETECTORS:
        try:
            detector()
        except Exception as error:
            found.append(f"{detector.__name__}: {type(error).__name__}")
    return found


def test_nothing_is_noticed_where_nothing_is_wrong() -> None:
    assert caught() == []


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS[name](monkeypatch)
    found = caught()
    monkeypatch.undo()
    torch.set_grad_enabled(True)  # a fault may have left it off
    assert found, f"nobody noticed {name}"
