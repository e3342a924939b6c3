"""Runs a script on either engine and notes each backward: loss, graph, order of nodes."""

from __future__ import annotations

import random
import runpy
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from gradscope.record.from_runtime.script.aliases import torch_is_gradscope
from tests.runtime import oracle


@dataclass
class Watched:
    """What a script did on one engine."""

    out: str = ""
    losses: list[float] = field(default_factory=list)
    graphs: list[Any] = field(default_factory=list)
    orders: list[list[int]] = field(default_factory=list)


def watched(script: Path, *arguments: str, gradscope: bool, dtype: str) -> Watched:
    """Run a script with this default dtype; every call of backward or grad is looked at."""
    found = Watched()
    said = StringIO()
    with ExitStack() as stack:
        if gradscope:
            stack.enter_context(torch_is_gradscope())
        import torch

        assert gradscope == ("gradscope" in (torch.__file__ or ""))
        stack.enter_context(_settings(torch, dtype, [str(script), *arguments]))
        stack.enter_context(_backwards_seen(torch, found))
        stack.enter_context(redirect_stdout(said))
        runpy.run_path(str(script), run_name="__main__")
    found.out = said.getvalue()
    return found


@contextmanager
def _settings(torch: Any, dtype: str, argv: list[str]) -> Iterator[None]:
    """The script's arguments and default dtype, and what it changes put back."""
    before, sys.argv, state = sys.argv, argv, random.getstate()
    kind, threads = torch.get_default_dtype(), torch.get_num_threads()
    torch.set_default_dtype(getattr(torch, dtype))
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_default_dtype(kind)
        random.setstate(state)
        sys.argv = before


@contextmanager
def _backwards_seen(torch: Any, found: Watched) -> Iterator[None]:
    backward, grad = torch.Tensor.backward, torch.autograd.grad

    def looked_at(outputs: list[Any]) -> list[Any]:
        nodes = [node for node, _ in oracle.walk(outputs)]
        found.graphs.append(oracle.graph_of(outputs))
        order: list[int] = []
        found.orders.append(order)
        return [
            node.register_hook(lambda *_, at=place: order.append(at))
            for place, node in enumerate(nodes)
        ]

    def watched_backward(self: Any, *args: Any, **kwargs: Any) -> Any:
        found.losses.append(self.item())
        hooks = looked_at([self])
        try:
            return backward(self, *args, **kwargs)
        finally:
            for hook in hooks:
                hook.remove()

    def watched_grad(outputs: Any, *args: Any, **kwargs: Any) -> Any:
        many = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
        hooks = looked_at(many)
        try:
            return grad(outputs, *args, **kwargs)
        finally:
            for hook in hooks:
                hook.remove()

    torch.Tensor.backward, torch.autograd.grad = watched_backward, watched_grad
    try:
        yield
    finally:
        torch.Tensor.backward, torch.autograd.grad = backward, grad
