"""Helpers that work alike on gradscope's runtime and on PyTorch."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest


def runtime() -> Any:
    """gradscope's runtime, as `import torch` gives it under `gradscope trace`."""
    return importlib.import_module("gradscope.runtime")


def leaf(torch: Any, *values: float) -> Any:
    """A leaf with a gradient."""
    return torch.tensor(list(values), dtype=torch.float64, requires_grad=True)


def raises(kind: type[BaseException], action: Callable[[], Any]) -> str:
    """The first line of the error that an action ends in."""
    with pytest.raises(kind) as caught:
        action()
    return str(caught.value).splitlines()[0]


def function(
    torch: Any,
    forward: Callable[..., Any],
    backward: Callable[..., Any] | None = None,
    setup_context: Callable[..., Any] | None = None,
    name: str = "Mine",
) -> Any:
    """A custom Function made of these."""
    body: dict[str, Any] = {"forward": staticmethod(forward)}
    if backward is not None:
        body["backward"] = staticmethod(backward)
    if setup_context is not None:
        body["setup_context"] = staticmethod(setup_context)
    return type(name, (torch.autograd.Function,), body)


def names(node: Any) -> list[Any]:
    """The nodes an edge leads to, by name, with the input number."""
    return [(None if n is None else type(n).__name__, nr) for n, nr in node.next_functions]
