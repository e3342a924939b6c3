"""Machine code runs inside PyTorch only on processors that are listed."""

from __future__ import annotations

import platform

import pytest

from gradscope.trace.schema import Node, NodeBegin
from gradscope.trace.shortcomings import notes_of
from tests.record.from_pytorch.watching import recorded

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("level", ["graph", "engine", "values", "full"])
def test_on_another_processor_hooks_serve_and_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    import torch

    from gradscope.machine_code.language import Compiled
    from gradscope.watch.observer import Library

    def never(*_: object, **_more: object) -> None:
        raise AssertionError("machine code is made, or PyTorch is told to call it")

    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(Compiled, "__init__", never)
    monkeypatch.setattr(Library, "observe", never)

    def program() -> None:
        torch.ones(2, requires_grad=True).exp().sum().backward()

    _, trace = recorded(program, level)
    assert len(trace.table(Node)) == 3
    assert level == "graph" or len(trace.table(NodeBegin)) == 3
    assert [*notes_of(trace)] == []
    assert trace.meta["no_machine_code"] == (
        "gradscope has no machine code for aarch64 on linux yet"
    )
