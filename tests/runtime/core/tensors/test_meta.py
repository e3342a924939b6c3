"""Tensors on the meta device: shapes, dtypes and graphs, but no numbers. As PyTorch has them."""

from __future__ import annotations

from typing import Any

import pytest


def test_operations_give_shapes(torch: Any) -> None:
    x = torch.empty(3, 4, device="meta")

    product = x @ torch.ones(4, 2, device="meta")

    assert str(x) == "tensor(..., device='meta', size=(3, 4))"
    assert (x.is_meta, str(x.device), x.stride()) == (True, "meta", (4, 1))
    assert (product.shape, product.is_meta) == ((3, 2), True)
    assert (x + 1).is_meta
    assert x.add_(torch.tensor(1.0)).is_meta


def test_numbers_are_copied_in_and_lost_but_not_out(torch: Any) -> None:
    x = torch.zeros(2, device="meta")

    assert x.copy_(torch.ones(2)) is x
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        torch.ones(2).copy_(x)


def test_a_module_has_parameters_without_numbers(torch: Any) -> None:
    with torch.device("meta"):
        model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))
        out = model(torch.ones(7, 3))

    out.sum().backward()

    assert type(out.grad_fn).__name__ == "AddmmBackward0"
    assert all(p.is_meta and p.grad.is_meta for p in model.parameters())
    assert model[0].weight.grad.shape == (5, 3)

    model.to_empty(device="cpu")
    assert all(not p.is_meta for p in model.parameters())
    assert model(torch.zeros(1, 3)).shape == (1, 2)


NUMBERS_WANTED = {
    "item": (lambda torch, x: x.sum().item(), RuntimeError, "Tensor.item() cannot be called"),
    "bool": (lambda torch, x: bool(x.sum()), RuntimeError, "Tensor.item() cannot be called"),
    "cpu": (lambda torch, x: x.cpu(), NotImplementedError, "Cannot copy out of meta tensor"),
    "numpy": (lambda torch, x: x.numpy(), TypeError, "convert meta device type tensor"),
    "list": (lambda torch, x: x.tolist(), NotImplementedError, "Cannot copy out of meta tensor"),
    "nonzero": (lambda torch, x: x.nonzero(), NotImplementedError, ""),
    "mask": (lambda torch, x: x[x > 0], NotImplementedError, ""),
    "equal": (lambda torch, x: torch.equal(x, x), NotImplementedError, ""),
}  # fmt: skip


@pytest.mark.parametrize("what", NUMBERS_WANTED)
def test_what_needs_numbers_is_refused(torch: Any, what: str) -> None:
    call, kind, words = NUMBERS_WANTED[what]
    x = torch.ones(3, device="meta")

    with pytest.raises(kind) as caught:
        call(torch, x)

    assert words in str(caught.value)


def test_it_does_not_mix_with_the_cpu(torch: Any) -> None:
    with pytest.raises(RuntimeError):
        torch.ones(3, device="meta") + torch.ones(3)


def test_a_fake_kernel_serves_there(torch: Any) -> None:
    library = torch.library.Library("gradscope_meta", "DEF")
    library.define("foo(Tensor x) -> Tensor")
    library.impl("foo", lambda x: x.repeat(2), "CPU")
    torch.library.register_fake(
        "gradscope_meta::foo", lambda x: x.new_empty(2 * len(x)), lib=library
    )

    made = torch.ops.gradscope_meta.foo(torch.ones(3, device="meta"))

    assert (made.shape, made.is_meta) == ((6,), True)
