"""How new tensors lie in memory, and in which order random numbers fill them: as PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.both import runtime

CALLS = """
torch.cat([x, x])
torch.cat([x, x], 1)
torch.cat([x, torch.ones(0)])
torch.cat([last, last], 1)
torch.cat([last, y])
torch.cat([y.permute(0, 2, 3, 1)] * 2)
torch.stack([x, x])
torch.stack([x, x], 2)
torch.rand_like(x)
torch.rand_like(x, memory_format=torch.contiguous_format)
torch.rand_like(y, memory_format=torch.channels_last)
torch.rand_like(x[:, :1].expand(6, 4))
torch.rand_like(y.transpose(0, 2)[::2])
torch.randn_like(x)
torch.randn_like(last)
torch.randint_like(x, 0, 9)
torch.bernoulli(x)
F.dropout(x, 0.5)
F.dropout(last, 0.5)
F.dropout(x.clone(), 0.5, inplace=True)
F.dropout(x[:, :1].expand(6, 4), 0.5)
F.dropout(y.transpose(0, 2)[::2], 0.5)
F.dropout2d(last, 0.5)
F.alpha_dropout(x, 0.5, True)
"""


def made(torch: Any, call: str) -> tuple[Any, ...]:
    x = torch.arange(24.0).view(4, 6).t() / 24
    y = torch.arange(120.0).view(2, 3, 4, 5)
    torch.manual_seed(0)
    last = y.contiguous(memory_format=torch.channels_last)
    scope = {"torch": torch, "F": torch.nn.functional, "x": x, "y": y, "last": last}
    found = eval(call, scope)
    return found.stride(), found.flatten().tolist()


@pytest.mark.torch
@pytest.mark.parametrize("call", CALLS.strip().splitlines())
def test_a_tensor_lies_and_is_filled_as_pytorchs(call: str) -> None:
    import torch as real

    strides, numbers = made(real, call)
    ours = made(runtime(), call)

    assert ours[0] == strides
    assert ours[1] == pytest.approx(numbers, rel=1e-6)


CONTIGUOUS = """
y
y.contiguous(memory_format=torch.channels_last)
y.transpose(1, 3)
y[:, :1]
y[:, :, :1, :1]
y.unsqueeze(0).contiguous(memory_format=torch.channels_last_3d)
y.unsqueeze(0)
y[0, 0]
y[:, :1].expand(2, 3, 4, 5)
torch.ones(2, 1, 1, 5)
"""
FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")


def orders(torch: Any, call: str) -> list[str]:
    """The memory formats that a tensor is said to have."""
    y = eval(call, {"torch": torch, "y": torch.arange(120.0).view(2, 3, 4, 5)})
    return [name for name in FORMATS if y.is_contiguous(memory_format=getattr(torch, name))]


def test_is_contiguous_answers_for_the_order_it_is_asked_for() -> None:
    torch = runtime()
    assert orders(torch, "y") == ["contiguous_format", "preserve_format"]
    assert orders(torch, "y.contiguous(memory_format=torch.channels_last)") == ["channels_last"]
    assert orders(torch, "y[:, :1].contiguous()") == list(FORMATS[:3])
    with pytest.raises(TypeError, match=r"must be torch\.memory_format, not str"):
        torch.ones(2).is_contiguous(memory_format="channels_last")


@pytest.mark.torch
def test_is_contiguous_answers_as_pytorch_does() -> None:
    import torch

    calls = CONTIGUOUS.strip().splitlines()
    assert {c: orders(runtime(), c) for c in calls} == {c: orders(torch, c) for c in calls}


def test_bilinear_takes_inputs_that_no_view_can_flatten() -> None:
    torch = runtime()
    x, y = torch.arange(24.0).view(2, 3, 4), torch.arange(30.0).view(2, 3, 5)
    weight = torch.arange(40.0).view(2, 4, 5)
    turned = torch.nn.functional.bilinear(x.transpose(0, 1), y.transpose(0, 1), weight)
    plain = torch.nn.functional.bilinear(x, y, weight)
    assert turned.tolist() == plain.transpose(0, 1).tolist()
