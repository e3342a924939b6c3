"""What calls tell whoever watches."""

from __future__ import annotations

from typing import Any

import pytest

import gradscope.runtime as torch
from gradscope.runtime.core import probe
from gradscope.runtime.core.rows.operation import REGISTRY


class Watcher:
    """Remembers which operations it was told of."""

    look = None

    def __init__(self) -> None:
        self.told: list[str] = []

    def noted(self, op: Any, *rest: Any) -> None:
        self.told.append(op.name)

    call = op = wrote = noted

    def __getattr__(self, name: str) -> Any:
        return lambda *args: 0


def test_a_function_keeps_its_code_whoever_watches() -> None:
    functions = [torch.mul, torch.Tensor.__add__, torch.cat, torch.Tensor.mul_, torch.sum]
    x = torch.ones(2)

    def called() -> list[Any]:
        _ = torch.mul(x, x) + 1.0, torch.cat([x, x]), x.clone().mul_(2.0), torch.sum(x)
        return [function.__code__ for function in functions]

    unwatched = called()
    with probe.watching(Watcher()):
        watched = called()

    assert all(one is other for one, other in zip(unwatched, watched, strict=True))
    assert called() == unwatched


@pytest.mark.parametrize("name", ["mul", "cat", "mul_", "sum"])
def test_a_call_tells_the_watcher_it_found_when_it_began(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may end a recording while a kernel runs."""
    scope = REGISTRY[name].road.__globals__
    kernel, first, second = scope["kernel"], Watcher(), Watcher()

    def gone_when_it_ends(*arrays: Any, **options: Any) -> Any:
        probe.watch(None if probe.here is first else second)
        return kernel(*arrays, **options)

    monkeypatch.setitem(scope, "kernel", gone_when_it_ends)
    x = torch.ones(2)
    arguments = {"cat": ([x, x],), "sum": (x,)}.get(name, (x, x))
    with probe.watching(first):
        REGISTRY[name].road(*arguments)
        assert probe.here is None
        REGISTRY[name].road(*arguments)
        assert probe.here is second

    assert (first.told, second.told) == ([name], [])
