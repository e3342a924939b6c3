"""PyTorch's function that calls its engine has calls of ours in it while a program is watched."""

from __future__ import annotations

import inspect
import sys
import traceback
from typing import Any

import pytest

import gradscope
from gradscope.trace.schema import GraphTask

pytestmark = pytest.mark.torch


def hook_of(seen: list[str]) -> Any:
    def hook(_: Any) -> None:
        frame: Any = sys._getframe(1)
        while frame is not None and frame.f_code.co_name != "backward_of_a_test":
            seen.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
            frame = frame.f_back

    return hook


def backward_of_a_test(seen: list[str]) -> None:
    import torch

    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(hook_of(seen))
    y.sum().backward()


def test_no_frame_of_ours_stands_between_a_program_and_its_backward() -> None:
    import torch.autograd.graph as home

    own = home._engine_run_backward.__code__
    alone: list[str] = []
    watched: list[str] = []
    backward_of_a_test(alone)
    with gradscope.record(on="torch") as recording:
        assert home._engine_run_backward.__code__ is not own
        assert inspect.signature(home._engine_run_backward).parameters.keys() == {
            "t_outputs",
            "args",
            "kwargs",
        }
        backward_of_a_test(watched)
    assert home._engine_run_backward.__code__ is own
    assert len([*recording.trace().rows(GraphTask)]) == 1
    assert (
        alone
    )  # the frame of PyTorch's that calls the hook comes first, of ours none but the hook
    assert [each for each in watched if "gradscope/watch/hooks" not in each] == alone


def test_a_failed_backward_has_the_traceback_that_it_has_alone() -> None:
    import torch

    def failed() -> str:
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        y.add_(1)
        try:
            y.sum().backward()
        except RuntimeError as error:
            return "".join(traceback.format_exception(error))
        return ""

    alone = failed()
    with gradscope.record(on="torch"):
        watched = failed()
    assert "run_backward(" in alone
    assert watched == alone


def test_where_that_function_looks_otherwise_the_engine_alone_is_watched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch.autograd.graph as home

    own = home._engine_run_backward.__code__

    def no_source(_: Any) -> str:
        raise OSError("no source")

    monkeypatch.setattr(inspect, "getsource", no_source)
    with gradscope.record(on="torch") as recording:
        assert home._engine_run_backward.__code__ is own
        backward_of_a_test([])
    assert len([*recording.trace().rows(GraphTask)]) == 1
