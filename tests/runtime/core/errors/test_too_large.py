"""Memory that there is not: PyTorch's error, with the bytes that were asked for."""

from __future__ import annotations

from typing import Any

import pytest

HUGE = 10**14
SAYS = (
    r"DefaultCPUAllocator: can't allocate memory: you tried to allocate (\d+) bytes. Error code 12"
)
ASKS = {
    "torch.empty(n)": 4,
    "torch.ones(n)": 4,
    "torch.zeros(n, 1, dtype=torch.float64) + 1": 8,
    "torch.full((n,), 1.0)": 4,
    "torch.randn(n)": 4,
    "torch.arange(n)": 8,
    "torch.ones(1).expand(n // 10**7, 1) + torch.ones(1).expand(1, 10**7)": 4,
    "torch.ones(n // 10**7, 1) @ torch.ones(1, 10**7)": 4,
    "torch.ones(1).expand(n).clone()": 4,
    "torch.ones(1).expand(n).exp()": 4,
    "torch.cat([torch.ones(1).expand(n // 2)] * 2)": 4,
    "torch.nn.Linear(n // 10**7, 10**7)": 4,
    "torch.rand_like(torch.ones(1).expand(n))": 4,
    "torch.randint_like(torch.ones(1).expand(n), 3)": 4,
    "torch.ones(1).resize_(n)": 4,
}


BACKWARDS = {
    "the gradient of a view": "x.expand(n // 10**7, 10**7)[0].sum()",
    "a gradient that is scattered": "x.expand(n)[torch.tensor([0])].sum()",
    "of elements that are selected": "x.expand(n).index_select(0, torch.tensor([5])).sum()",
}
ENGINES = ["gradscope", pytest.param("torch", marks=pytest.mark.torch)]


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_too_large_is_refused_in_pytorchs_words(engine: str) -> None:
    torch: Any = pytest.importorskip("torch" if engine == "torch" else "gradscope.runtime")
    for ask, item in ASKS.items():
        if "zeros" in ask and engine == "torch":
            continue  # of zeros PyTorch's allocator may get what is never written to
        with pytest.raises(RuntimeError, match=SAYS) as raised:
            eval(ask, {"torch": torch, "n": HUGE})
        assert f" {HUGE * item} bytes" in str(raised.value), ask
    with pytest.raises(RuntimeError, match=r"^Storage size calculation overflowed with sizes="):
        torch.empty(10**12, 10**12)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_backward_that_needs_too_much_says_so_too(engine: str) -> None:
    torch: Any = pytest.importorskip("torch" if engine == "torch" else "gradscope.runtime")
    for what, text in BACKWARDS.items():
        x = torch.ones(1, requires_grad=True)
        y = eval(text, {"torch": torch, "n": HUGE, "x": x})
        with pytest.raises(RuntimeError, match=SAYS) as raised:
            y.backward()
        assert f" {HUGE * 4} bytes" in str(raised.value), what


def test_what_a_users_own_backward_cannot_get_is_the_users_error() -> None:
    import numpy as np

    from gradscope import runtime as torch

    class Greedy(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return np.ones(HUGE)

    with pytest.raises(MemoryError):
        Greedy.apply(torch.ones(1, requires_grad=True)).sum().backward()
