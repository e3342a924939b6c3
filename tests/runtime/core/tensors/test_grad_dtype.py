"""`grad_dtype`: a leaf whose gradient is of another dtype than itself. As PyTorch has it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.both import function, leaf


def test_a_gradient_comes_in_the_dtype_that_the_leaf_wants(torch: Any) -> None:
    x = leaf(torch, 1.0)
    for wanted in (torch.float32, torch.float16):
        x.grad, x.grad_dtype = None, wanted

        (x * 2).sum().backward()
        (x * 3).sum().backward()
        (held,) = torch.autograd.grad((x * 4).sum(), x)

        assert (x.grad_dtype, x.grad.dtype, held.dtype) == (wanted, wanted, wanted)
        assert (x.grad.tolist(), held.tolist()) == ([5.0] * x.numel(), [4.0] * x.numel())


def test_a_graph_that_was_there_before_takes_the_new_dtype(torch: Any) -> None:
    x = leaf(torch, 1.0)
    y = (x * 2).sum()

    x.grad_dtype = torch.float32
    y.backward()

    assert x.grad.dtype is torch.float32


def test_a_leaf_may_take_a_gradient_of_any_dtype(torch: Any) -> None:
    x = leaf(torch, 1.0)
    widened = function(torch, lambda ctx, x: x * 2, lambda ctx, g: g.float())

    x.grad_dtype = None
    widened.apply(x).sum().backward()
    first = x.grad.dtype
    x.grad = torch.ones_like(x, dtype=torch.float16)

    assert (x.grad_dtype, first, x.grad.dtype) == (None, torch.float32, torch.float16)


def test_what_cannot_be_a_dtype_of_gradients_is_refused(torch: Any) -> None:
    x = leaf(torch, 1.0)
    x.sum().backward()

    assert x.grad_dtype is x.dtype
    for tensor, dtype, text in (
        (x * 1, torch.float64, "grad_dtype can only be set on leaf tensors"),
        (x, "float64", "grad_dtype must be a torch.dtype or None, but got str"),
        (x, torch.float32, "Cannot set grad_dtype to 'Float' because there is already"),
    ):
        with pytest.raises(RuntimeError, match=text):
            tensor.grad_dtype = dtype
    x.grad, x.grad_dtype = None, torch.float16
    with pytest.raises(
        RuntimeError, match="with dtype 'double' to a tensor with grad_dtype 'Half'"
    ):
        x.grad = torch.ones_like(x)
