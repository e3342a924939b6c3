"""Nodes that are called twice with the same values, and return other bits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process may have registered kernels."""
    import torch

    monkeypatch.setattr(torch.library, "_impls", set())


def samples() -> Any:
    from gradscope.watch.public.node_samples import NodeSamples

    return NodeSamples(lambda *_: True, lambda *_: None)


HOOKED: Any = SimpleNamespace(leaf=None, number=0, site=0)


def sampled(node: Any, returned: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The sample of a node that received ones and returned this."""
    import torch

    monkeypatch.setattr(torch._C, "_current_autograd_node", lambda: node)
    made = samples()
    made.begins(HOOKED, (torch.ones(3),))
    made.returns((returned,))
    (sample,) = made.all
    return sample


class TanhBackward0:
    """A node that returns what it is given, as if its kernel had computed it."""

    _input_metadata = ()

    def __init__(self, returned: Any) -> None:
        self._returned = returned

    def name(self) -> str:
        return "TanhBackward0"

    def __call__(self, *_: Any) -> Any:
        return self._returned


def test_a_node_that_returns_other_bits_is_unsteady(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    first, second = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 2.0, 3.0000002])

    assert sampled(TanhBackward0(second), first, monkeypatch).unsteady
    assert not sampled(TanhBackward0(first), first, monkeypatch).unsteady
    assert not sampled(TanhBackward0(torch.ones(2)), first, monkeypatch).unsteady


def test_a_node_is_called_again_without_hooks_and_without_a_graph() -> None:
    import torch

    from gradscope.watch.public.run_again import called_again

    seen: list[Any] = []
    x = torch.linspace(0.1, 1, 5, requires_grad=True)
    node = x.tanh().grad_fn
    assert node is not None
    node.register_prehook(seen.append)

    (made,) = called_again(node, (torch.ones(5),))

    assert torch.allclose(made, 1 - x.detach().tanh() ** 2)
    assert (seen, made.requires_grad) == ([], False)


def test_a_node_whose_calls_the_program_may_see_is_not_called_again() -> None:
    import torch

    from gradscope.watch.public.run_again import called_again

    class Square(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            raise AssertionError

    x, ones = torch.ones(3, requires_grad=True), (torch.ones(3),)
    tanh, custom = x.tanh().grad_fn, Square.apply(x).grad_fn

    assert called_again(custom, ones) == ()
    with torch.autograd.profiler.profile():
        assert called_again(tanh, ones) == ()
    assert len(called_again(tanh, ones)) == 1
