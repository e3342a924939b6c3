"""Views that say where they look: their strides, and what they refuse."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

from tests.runtime.both import raises


def test_what_is_repeated_once_keeps_a_stride(torch: Any) -> None:
    strides = {
        (1, 5): (5, 1),
        (3, 1, 5): (0, 5, 1),
        (1, 1, 5): (5, 5, 1),
        (1, 3, 5): (0, 0, 1),
    }
    for size, wanted in strides.items():
        assert torch.ones(5).expand(size).stride() == wanted
    assert torch.ones(5, 2).t().expand(3, 1, 2, 5).stride() == (0, 2, 1, 2)
    assert torch.ones(4, 1)[::2].expand(2, 1).stride() == (2, 1)
    assert torch.ones(()).expand(1, 1).tolist() == [[1.0]]


def test_larger_elements_are_seen_only_where_they_fit(torch: Any) -> None:
    bytes_ = torch.arange(24, dtype=torch.int8).reshape(3, 8)
    words = "to view Char as Int (different element sizes), but got"

    def told(source: Any) -> str:
        return raises(RuntimeError, lambda: source.view(torch.int32))

    assert told(bytes_[:, 1:5]) == f"self.storage_offset() must be divisible by 4 {words} 1"
    assert told(torch.ones(3, 5, dtype=torch.int8)[:, :4]) == (
        f"self.stride(0) must be divisible by 4 {words} 5"
    )
    assert bytes_[:, 4:].view(torch.int32).shape == (3, 1)


def test_nothing_can_be_seen_as_any_dtype_and_from_anywhere(torch: Any) -> None:
    assert torch.ones(0, 4, dtype=torch.int32).view(torch.int8).shape == (0, 16)
    assert torch.ones(4, 0, dtype=torch.int32).view(torch.int8).shape == (4, 0)
    x = torch.ones(1, requires_grad=True)
    window = (x * 2).as_strided((0, 1), (1, 1), 1)
    assert (window.shape, window.stride()) == ((0, 1), (1, 1))
    window.sum().backward()
    assert x.grad.tolist() == [0.0]
    assert torch.empty(0).as_strided((0,), (1,), 3).tolist() == []


def test_places_to_split_at_are_whole_numbers_in_a_row(torch: Any) -> None:
    expected = "tensor_split expected tensor_indices_or_sections to"
    x = torch.ones(6)

    assert raises(RuntimeError, lambda: torch.tensor_split(x, torch.tensor(1.5))) == (
        f"{expected} have dtype of long, but got Float"
    )
    assert raises(RuntimeError, lambda: torch.tensor_split(x, torch.tensor([[1]]))) == (
        f"{expected} be a zero-dimensional or one-dimensional tensor, but got a tensor with 2 dims"
    )


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_a_tensor_becomes_a_window_on_a_typed_storage(torch: Any) -> None:
    source = torch.arange(4.0)

    made = torch.ones(2).set_(source.storage(), 1, (2,), (2,))
    assert made.tolist() == [1.0, 3.0]


def test_a_tensor_is_resized_to_an_order_of_its_elements(torch: Any) -> None:
    last = torch.channels_last
    x = torch.ones(3).resize_((2, 3, 4, 5), memory_format=last)
    assert x.stride() == (60, 1, 15, 3)
    assert x.resize_((2, 3, 4, 5), memory_format=torch.contiguous_format).stride()[-1] == 1
    as_other = torch.ones(3).resize_as_(x.contiguous(memory_format=last), memory_format=last)
    assert as_other.stride() == (60, 1, 15, 3)
    preserved = torch.ones(3).resize_as_(as_other, memory_format=torch.preserve_format)
    assert preserved.stride() == (60, 1, 15, 3)

    refused = {
        "required rank 4 tensor to use channels_last format": ((2, 3), last),
        "Unsupported memory formatPreserve": ((2, 3), torch.preserve_format),
        "numel: integer multiplication overflow": ((2**32, 2**32), None),
    }
    for text, (size, order) in refused.items():
        told = raises(
            RuntimeError,
            lambda size=size, order=order: torch.ones(3).resize_(size, memory_format=order),
        )
        assert told == text


def test_an_order_of_elements_is_a_memory_format(torch: Any) -> None:
    for name in ("clone", "contiguous"):
        copy = getattr(torch.ones(2, 3), name)
        assert raises(TypeError, lambda copy=copy: copy(memory_format=3)) == (
            f"{name}(): argument 'memory_format' must be torch.memory_format, not int"
        )


@pytest.mark.parametrize("beta", [1, 2, 0])
@pytest.mark.parametrize("size", [(5,), (1, 5), (1, 1), (1,), (3, 1), ()])
def test_a_sum_of_products_is_spread_over_its_target(
    torch: Any, size: tuple[int, ...], beta: int
) -> None:
    """Of a column PyTorch reads, in the second row, what it has written in the first."""
    first, second = torch.arange(24.0).reshape(2, 3, 4), torch.arange(40.0).reshape(2, 4, 5)
    numbers = torch.ones(3) if size == (3, 1) else torch.arange(1.0, 1 + prod(size))
    target = numbers.reshape(size).clone()
    expected = torch.addbmm(target, first, second, beta=beta)

    same = target.addbmm_(first, second, beta=beta)

    assert same is target
    assert (target.shape, target.stride(), target._version) == ((3, 5), (5, 1), 1)
    assert target.tolist() == expected.tolist()


def test_gradients_flow_through_a_target_that_was_spread(torch: Any) -> None:
    first, second = torch.ones(2, 3, 4, requires_grad=True), torch.ones(2, 4, 5)
    start = torch.ones(5, requires_grad=True)
    target = start * 1

    target.addbmm_(first, second, beta=2)
    target.sum().backward()

    assert start.grad.tolist() == [6.0] * 5
    assert first.grad.shape == first.shape
    raises(RuntimeError, lambda: start.addbmm_(first, second))
    assert start.shape == (5,)


@pytest.mark.parametrize("size", [(4,), (0,), (2, 3, 5), (3, 4)])
def test_a_target_that_cannot_be_spread_is_refused(torch: Any, size: tuple[int, ...]) -> None:
    first, second = torch.ones(2, 3, 4), torch.ones(2, 4, 5)
    for beta in (1, 0):
        target = torch.ones(size)
        said = raises(RuntimeError, lambda: target.addbmm_(first, second, beta=beta))  # noqa: B023
        assert "must match the existing size" in said or "number of sizes provided" in said
        assert target.shape == size
