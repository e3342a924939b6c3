"""What the words of a program mean: operations of every family, views, writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SIZE = 3
SHAPES = {"matrix": (SIZE, SIZE), "row": (1, SIZE), "vector": (SIZE,), "number": ()}


def leaf(torch: Any, place: int, shape: str, requires_grad: bool) -> Any:
    """A leaf with values that depend only on its place."""
    return numbers(torch, SHAPES[shape], 3 * place).requires_grad_(requires_grad)


def numbers(torch: Any, shape: tuple[int, ...], start: int) -> Any:
    """A tensor of small numbers of either sign, no two of them equal at first."""
    count = 1
    for n in shape:
        count *= n
    values = [((7 * k + start) % 11 - 4.9) / 8 for k in range(count)]
    return torch.tensor(values, dtype=torch.float64).reshape(shape).clone()


def fitting(x: Any, y: Any) -> Any:
    """Another tensor as it fits beside x: itself, or its sum where it would not broadcast."""
    pairs = zip(reversed(x.shape), reversed(y.shape), strict=False)
    return y if all(a == b or 1 in (a, b) for a, b in pairs) else y.sum()


def into(x: Any, y: Any) -> Any:
    """Another tensor as it can be written into x."""
    pairs = zip(reversed(x.shape), reversed(y.shape), strict=False)
    fits = y.dim() <= x.dim() and all(b in (1, a) for a, b in pairs)
    return y if fits else y.sum()


def flat(x: Any) -> Any:
    return x.reshape(-1)


def square(x: Any) -> Any:
    """A matrix made of what x has."""
    return x if x.dim() == 2 else flat(x).unsqueeze(0)


def positions(torch: Any, x: Any) -> Any:
    """A place in x for each of four: the last, the first, the last again, the middle."""
    count = max(flat(x).shape[0], 1)
    return torch.tensor([count - 1, 0, count - 1, count // 2])


Word = Callable[..., Any]

BINARY = ("add", "sub", "mul", "div", "maximum", "where", "lerp")
"""Operations whose result lies in memory as PyTorch's does only if the first operand is dense."""

OPERATIONS: dict[str, Word] = {
    "add": lambda torch, x, y: x + fitting(x, y),
    "sub": lambda torch, x, y: torch.sub(x, fitting(x, y), alpha=2),
    "mul": lambda torch, x, y: x * fitting(x, y),
    "div": lambda torch, x, y: x / (fitting(x, y * y) + 2),
    "maximum": lambda torch, x, y: torch.maximum(x, fitting(x, y)),
    "where": lambda torch, x, y: torch.where(x > 0, x, fitting(x, y)),
    "lerp": lambda torch, x, y: torch.lerp(x, fitting(x, x), 0.25),
    "twice": lambda torch, x, y: x * 2,
    "more": lambda torch, x, y: 1 - x,
    "cube": lambda torch, x, y: x**3,
    "tanh": lambda torch, x, y: x.tanh(),
    "exp": lambda torch, x, y: (x * 0.5).exp(),
    "sin": lambda torch, x, y: x.sin(),
    "sigmoid": lambda torch, x, y: torch.sigmoid(x),
    "relu": lambda torch, x, y: torch.relu(x),
    "clamp": lambda torch, x, y: x.clamp(-0.3, 0.3),
    "neg": lambda torch, x, y: -x,
    "single": lambda torch, x, y: x.float().double(),
    "clone": lambda torch, x, y: x.clone(),
    "sum": lambda torch, x, y: x.sum(),
    "mean": lambda torch, x, y: x.mean(0, keepdim=True) if x.dim() else x.mean(),
    "amax": lambda torch, x, y: flat(x).amax(0),
    "max": lambda torch, x, y: flat(x).max(0)[0],
    "cumsum": lambda torch, x, y: flat(x).cumsum(0),
    "softmax": lambda torch, x, y: torch.softmax(flat(x), 0),
    "logsumexp": lambda torch, x, y: torch.logsumexp(flat(x), 0),
    "norm": lambda torch, x, y: (flat(x) * flat(x)).sum().add(1).sqrt(),
    "matmul": lambda torch, x, y: square(x).t() @ square(x),
    "outer": lambda torch, x, y: flat(x)[:3].unsqueeze(1) * flat(y)[:3],
    "dot": lambda torch, x, y: flat(x)[:2].dot(flat(x)[-2:]),
    "cat": lambda torch, x, y: torch.cat([flat(x), flat(y)])[:9],
    "stack": lambda torch, x, y: torch.stack([flat(x)[:1], flat(y)[:1]]),
    "repeat": lambda torch, x, y: flat(x)[:2].repeat(2),
    "flip": lambda torch, x, y: flat(x).flip(0),
    "gather": lambda torch, x, y: flat(x)[positions(torch, x)],
    "index_select": lambda torch, x, y: flat(x).index_select(0, positions(torch, x)),
    "masked_fill": lambda torch, x, y: x.masked_fill(x > 0.1, 0.5),
    "index_add": lambda torch, x, y: flat(x).index_add(
        0, positions(torch, x), flat(y)[:1].expand(4)
    ),
}

VIEWS: dict[str, Word] = {
    "transposed": lambda x: x.t() if x.dim() == 2 else flat(x),
    "row": lambda x: x[0] if x.dim() else flat(x),
    "rest": lambda x: x[1:] if x.dim() and x.shape[0] > 1 else x.view_as(x),
    "every second": lambda x: flat(x)[::2],
    "flat": flat,
    "expanded": lambda x: x.expand(2, *x.shape) if x.dim() < 2 else x.unsqueeze(1),
    "same": lambda x: x.view_as(x),
    "narrow": lambda x: flat(x).narrow(0, 0, 1),
    "diagonal": lambda x: square(x).diagonal(),
    "strided": lambda x: flat(x).as_strided((1,), (1,), flat(x).storage_offset()),
    "unbound": lambda x: flat(x)[:2].unbind(0),
    "split": lambda x: flat(x).split(2)[:2],
}


def write_first(torch: Any, x: Any, y: Any) -> None:
    if x.dim():
        x[0] = into(x[0], y)
    else:
        x.fill_(0.25)


def write_second(torch: Any, x: Any, y: Any) -> None:
    if x.dim() and x.shape[0] > 1:
        x[1:] *= 2
    else:
        x += 1


def put(torch: Any, x: Any, y: Any) -> None:
    if x.dim() == 1:
        x.index_put_((positions(torch, x),), y.sum(), accumulate=True)
    else:
        x.copy_(into(x, y) * 1)


WRITES: dict[str, Word] = {
    "mul_": lambda torch, x, y: x.mul_(into(x, y)),
    "add_": lambda torch, x, y: x.add_(into(x, y), alpha=2),
    "copy_": lambda torch, x, y: x.copy_(into(x, y)),
    "tanh_": lambda torch, x, y: x.tanh_(),
    "relu_": lambda torch, x, y: x.relu_(),
    "zero_": lambda torch, x, y: x.zero_(),
    "fill_": lambda torch, x, y: x.fill_(0.25),
    "masked_fill_": lambda torch, x, y: x.masked_fill_(x > 0, 0.5),
    "sub_": lambda torch, x, y: x.sub_(1),
    "first": write_first,
    "second": write_second,
    "put": put,
}
