"""A number may stand where the first operand of arithmetic is expected."""

from __future__ import annotations

import pytest

from gradscope import runtime

pytestmark = pytest.mark.torch

CALLS = """
torch.add(1, 2)
torch.add(1, 2.5)
torch.add(True, 2)
torch.add(1, 2, alpha=3)
torch.sub(2, 3.0)
torch.subtract(1, x)
torch.mul(2, 3)
torch.multiply(2, x)
torch.div(3, 2)
torch.div(7, 2, rounding_mode="floor")
torch.true_divide(3, x)
torch.floor_divide(7, 2)
torch.add(1, x.half())
torch.mul(2.5, x.long())
"""


@pytest.mark.parametrize("text", CALLS.split("\n")[1:-1])
def test_a_number_comes_first(text: str) -> None:
    import torch

    found, wanted = (
        eval(text, {"torch": module, "x": module.ones(2) * 3}) for module in (runtime, torch)
    )

    assert str(found.dtype) == str(wanted.dtype)
    assert found.tolist() == wanted.tolist()


def test_the_number_has_no_history() -> None:
    x = runtime.ones(2, requires_grad=True)

    made = runtime.div(2, x)

    assert made.grad_fn.next_functions[0] == (None, 0)
    made.sum().backward()
    assert x.grad.tolist() == [-2.0, -2.0]
