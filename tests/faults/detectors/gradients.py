"""Gradients: their numbers, where they are summed, whose memory they are, how they lie in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.faults.detectors.common import close, detector, leaf, numeric, ones, refused, same


def functions(torch: Any) -> dict[str, Callable[[Any], Any]]:
    """Functions of three numbers, of every shape a graph can have."""
    return {
        "arithmetic": lambda x: (x * x[0] - x / (x * x + 2) + (1 - x) * 3).sum(),
        "subtraction": lambda x: (x[0] - x * 2 - x[1]).sum(),
        "elementary": lambda x: (x.exp() * x.sin() + torch.tanh(x) + (x * x + 1).sqrt()).sum(),
        "broadcast": lambda x: (
            (x.reshape(3, 1) * x).sum() + (x.reshape(1, 3) + x.reshape(3, 1)).pow(2).sum()
        ),
        "repeated": lambda x: (x * (x.reshape(3, 1) + 1).exp().expand(3, 3)).sin().sum(),
        "matrix": lambda x: (x.reshape(3, 1) @ x.reshape(1, 3) @ x.reshape(3, 1)).sum(),
        "views": lambda x: (x.expand(2, 3).t().reshape(-1)[1:5] * x[0]).sum(),
        "twice": lambda x: ((x + x) * (x + x)).sum(),
        "softmax": lambda x: (torch.softmax(x, 0) * x).sum(),
        "diamond": lambda x: sum(((x * k).tanh() * x).sum() for k in range(1, 5)),
        "written": lambda x: written(x).sum(),
        "one result of several": lambda x: (x.unbind()[1] * x.reshape(3, 1).unbind()[0]).sum(),
        "several results": lambda x: sum(
            (part * k).exp().sum() for k, part in enumerate(x.unbind())
        ),
    }


def written(x: Any) -> Any:
    """Values that were written through views of them, and views that were made before."""
    base = x * 2
    first, rest = base[:2], base[1:]
    first.mul_(x[1:])
    rest.add_(first * 3)
    base.reshape(3, 1).mul_(x.reshape(3, 1).exp())
    return base.sin() * rest[0] + first[1]


AT = [0.3, -0.7, 1.1]


@detector
def gradients(torch: Any) -> None:
    for each in functions(torch).values():
        x = leaf(torch, *AT)
        each(x).backward()
        close(x.grad, numeric(torch, each, AT))


@detector
def second_gradients(torch: Any) -> None:
    for each in functions(torch).values():

        def slope(x: Any, each: Any = each) -> Any:
            x = x if x.requires_grad else x.requires_grad_()
            (first,) = torch.autograd.grad(each(x), [x], create_graph=True)
            return (first * first).sum() + (x * x * x).sum()

        x = leaf(torch, *AT)
        slope(x).backward()
        close(x.grad, numeric(torch, slope, AT))


@detector
def complex_gradients(torch: Any) -> None:
    """Of a function that is holomorphic: the conjugate of its derivative."""
    z = torch.tensor([1 + 2j, 0.5 - 1j], dtype=torch.complex128, requires_grad=True)
    (found,) = torch.autograd.grad((z * z * z).sum(), z, torch.tensor(1 + 0j, dtype=z.dtype))
    wanted = [(3 * v * v).conjugate() for v in z.tolist()]
    assert all(abs(a - b) < 1e-9 for a, b in zip(found.tolist(), wanted, strict=True))
    seed = torch.tensor([1j, 2 + 1j], dtype=z.dtype)
    (found,) = torch.autograd.grad(z.exp(), z, seed)
    wanted = (z.exp().conj() * seed).tolist()
    assert all(abs(a - b) < 1e-9 for a, b in zip(found.tolist(), wanted, strict=True))


@detector
def gradients_fit_what_they_are_of(torch: Any) -> None:
    """Summed to its shape over the dims it was repeated along, and cast to its dtype."""
    row, column = leaf(torch, 1.0, 2.0, 3.0), leaf(torch, [1.0], [2.0])
    number = torch.tensor(2.0, requires_grad=True)
    weights = torch.tensor([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]], dtype=torch.float64)
    ((row + column + number) * weights).sum().backward()
    same(row.grad, 9.0, 18.0, 36.0)
    same(column.grad, 7.0, 56.0)
    same(number.grad, 63.0)
    assert row.grad.shape == (3,)
    assert column.grad.shape == (2, 1)
    assert number.grad.dtype == torch.float32
    x = torch.ones(2, requires_grad=True)
    (x.double() * 0.1).sum().backward()
    assert x.grad.dtype == torch.float32


@detector
def nobody_elses_memory(torch: Any) -> None:
    """A `.grad` can be written to without changing any other tensor."""
    a, b = leaf(torch, 1.0, 2.0), leaf(torch, 3.0, 4.0)
    (a + b).backward(ones(torch, 2))
    a.grad.mul_(10)
    same(b.grad, 1.0, 1.0)
    seed = ones(torch, 2)
    c = leaf(torch, 1.0, 2.0)
    (c + 0).backward(seed)
    c.grad.mul_(5)
    same(seed, 1.0, 1.0)
    d = leaf(torch, 1.0, 2.0)
    kept: list[Any] = []
    d.register_hook(kept.append)
    (d * 2).sum().backward()
    d.grad.mul_(5)
    same(kept[0], 2.0, 2.0)
    x, y = leaf(torch, 1.0, 2.0), leaf(torch, 1.0, 2.0)
    found = torch.autograd.grad((x + y).sum(), [x, y])
    (x + y).sum().backward()
    same(found[0], 1.0, 1.0)


@detector
def sums_leave_others_alone(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    y = x * 1
    kept: list[Any] = []
    z = y * 1
    z.register_hook(kept.append)
    (z + y).backward(ones(torch, 2))
    same(kept[0], 1.0, 1.0)
    same(x.grad, 2.0, 2.0)
    seed = ones(torch, 2)
    y = leaf(torch, 1.0, 2.0) * 1
    torch.autograd.backward([y + 0, y * 3], [seed, seed])
    same(seed, 1.0, 1.0)


@detector
def gradients_add_up(torch: Any) -> None:
    """In place, so that who holds `.grad` sees the sum; and the write is counted."""
    x = leaf(torch, 1.0, 2.0)
    (x * 2).sum().backward()
    first, view, version = x.grad, x.grad[:1], x.grad._version
    for _ in range(2):
        (x * 2).sum().backward()
    same(x.grad, 6.0, 6.0)
    same(view, 6.0)
    assert x.grad is first
    assert x.grad._version == version + 2


@detector
def gradients_with_a_graph_add_up_elsewhere(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    (x * x).sum().backward(inputs=[x])
    first = x.grad
    torch.autograd.backward((x * x).sum(), create_graph=True)
    same(first, 2.0, 4.0)
    same(x.grad, 4.0, 8.0)
    assert x.grad is not first
    x.grad = None
    torch.autograd.backward((x * x).sum(), create_graph=True)
    assert type(x.grad.grad_fn).__name__ == "CopyBackwards"


@detector
def undefined_gradients_stay_undefined(torch: Any) -> None:
    class Half(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x * y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, None

    x, y = leaf(torch, 1.0), leaf(torch, 2.0)
    middle = y * 3
    heard: list[Any] = []
    middle.register_hook(heard.append)
    Half.apply(x, middle).sum().backward()
    same(x.grad, 1.0)
    assert y.grad is None
    assert heard == [None]
    z = leaf(torch, 1.0)
    (Half.apply(x, z) + z * 2).sum().backward()
    same(z.grad, 2.0)


@detector
def layouts_follow_the_leaf(torch: Any) -> None:
    x = torch.ones(3, 2, dtype=torch.float64).t().detach().requires_grad_()
    (x * torch.ones(2, 3, dtype=torch.float64)).sum().backward()
    assert x.grad.stride() == x.stride()
    y = torch.ones(2, 6, dtype=torch.float64)[:, ::2].detach().requires_grad_()
    (y * torch.ones(3, 2, dtype=torch.float64).t()).sum().backward()
    assert y.grad.stride() == (3, 1)


@detector
def what_does_not_fit_is_refused(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    refused("only for scalar outputs", (x * 2).backward)
    refused("Mismatch in shape", lambda: (x * 2).backward(ones(torch, 3)))
    refused("does not require grad", lambda: ones(torch, 2).sum().backward())
    refused("cannot be empty", lambda: (x * 2).sum().backward(inputs=[]))
