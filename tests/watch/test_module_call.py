"""PyTorch's function that calls modules has calls of ours in it while a program is watched."""

from __future__ import annotations

import inspect
import pickle
import traceback
from typing import Any

import pytest

import gradscope
from gradscope.trace.schema import Module

pytestmark = pytest.mark.torch


def deep() -> Any:
    """A module that calls itself as deep as it can, and returns how deep that is."""
    import torch

    class Deep(torch.nn.Module):
        def forward(self, depth: int) -> Any:
            try:
                return self(depth + 1)
            except RecursionError:
                return depth

    return Deep()


@pytest.mark.parametrize("level", ["graph", "engine", "values", "full"])
def test_modules_are_called_as_deep_as_alone(level: str) -> None:
    def depth() -> Any:
        return deep()(0)

    alone = depth()
    with gradscope.record(on="torch", level=level):
        watched = depth()
    assert alone > 100
    assert watched == alone


def test_notes_that_had_no_room_are_counted() -> None:
    from gradscope.watch.in_place.faults import NO_ROOM

    with gradscope.record(on="torch", level="full") as recording:
        deep()(0)
    assert NO_ROOM in recording.trace().meta["unseen"]


def test_an_exception_of_a_module_has_the_traceback_that_it_has_alone() -> None:
    import torch

    def failed() -> str:
        try:
            torch.nn.Linear(2, 2)(torch.ones(3))
        except RuntimeError as error:
            return "".join(traceback.format_exception(error))
        return ""

    alone = failed()
    with gradscope.record(on="torch"):
        watched = failed()
    assert "_wrapped_call_impl" in alone
    assert watched == alone


def test_the_function_is_the_same_object_and_is_its_own_again() -> None:
    import torch

    own, code = torch.nn.Module.__call__, torch.nn.Module._wrapped_call_impl.__code__
    with gradscope.record(on="torch"):
        assert torch.nn.Module.__call__ is own
        assert torch.nn.Module._wrapped_call_impl.__code__ is not code
        assert pickle.loads(pickle.dumps(own)) is own
        assert inspect.getsource(own) == inspect.getsource(code)
    assert torch.nn.Module._wrapped_call_impl.__code__ is code


@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_a_compiler_makes_the_graphs_that_it_makes_alone() -> None:
    import torch

    compiled: list[str] = []

    def backend(graph: Any, _: Any) -> Any:
        compiled.append(str([node.name for node in graph.graph.nodes]))
        return graph.forward

    class Broken(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            torch._dynamo.graph_break()
            return x.relu()

    def run() -> list[str]:
        torch._dynamo.reset()
        compiled.clear()
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), Broken())
        torch.compile(model, backend=backend)(torch.ones(1, 2)).sum().backward()
        return [*compiled]

    alone = run()
    with gradscope.record(on="torch"):
        watched = run()
    assert alone
    assert watched == alone


def test_where_there_is_no_source_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from gradscope.watch.unseen import CALLS_UNSEEN

    def no_source(_: Any) -> str:
        raise OSError("no source")

    monkeypatch.setattr(inspect, "getsource", no_source)
    with gradscope.record(on="torch") as recording:
        torch.nn.Linear(2, 2)(torch.ones(2)).sum().backward()
    trace = recording.trace()
    assert CALLS_UNSEEN in trace.meta["unseen"]
    assert len([*trace.rows(Module)]) == 0
