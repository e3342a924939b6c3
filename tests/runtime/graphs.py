"""Programs of a dozen shapes, built by both engines from the same random numbers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Build = Callable[[Any, Random], list[Any]]
SHAPES: dict[str, Build] = {}


def shape(build: Build) -> Build:
    SHAPES[build.__name__.replace("_", " ")] = build
    return build


def leaves(torch: Any, random: Random, count: int, size: int = 3) -> list[Any]:
    return [
        torch.tensor(
            [random.uniform(0.5, 1.5) for _ in range(size)], dtype=torch.float64, requires_grad=True
        )
        for _ in range(count)
    ]


UNARY: list[Callable[[Any], Any]] = [
    lambda x: x * 1.5,
    lambda x: x + 1,
    lambda x: x.exp() * 0.1,
    lambda x: x.sin(),
    lambda x: -x,
    lambda x: x.tanh(),
    lambda x: x.clone(),
]
BINARY: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x + y,
    lambda x, y: x * y,
    lambda x, y: x - y,
    lambda x, y: x / (y * y + 1),
]


@shape
def a_chain(torch: Any, random: Random) -> list[Any]:
    (x,) = leaves(torch, random, 1)
    for _ in range(12):
        x = random.choice(UNARY)(x)
    return [x.sum()]


@shape
def one_leaf_used_many_times(torch: Any, random: Random) -> list[Any]:
    (x,) = leaves(torch, random, 1)
    uses = [random.choice(UNARY)(x) for _ in range(8)]
    random.shuffle(uses)
    return [sum(uses[1:], uses[0]).sum()]


@shape
def many_leaves_in_one_sum(torch: Any, random: Random) -> list[Any]:
    """Their AccumulateGrad nodes all have the same priority."""
    uses = leaves(torch, random, random.randint(5, 12))
    random.shuffle(uses)
    return [sum(uses[1:], uses[0]).sum()]


@shape
def many_leaves_at_once(torch: Any, random: Random) -> list[Any]:
    uses = leaves(torch, random, random.randint(5, 14))
    return [torch.stack([random.choice([u, u, u * 2]) for u in uses]).sum()]


@shape
def a_tree(torch: Any, random: Random) -> list[Any]:
    level = leaves(torch, random, 8)
    while len(level) > 1:
        random.shuffle(level)
        level = [random.choice(BINARY)(a, b) for a, b in zip(level[::2], level[1::2], strict=True)]
    return [level[0].sum()]


@shape
def diamonds(torch: Any, random: Random) -> list[Any]:
    (x,) = leaves(torch, random, 1)
    for _ in range(5):
        x = random.choice(BINARY)(random.choice(UNARY)(x), random.choice(UNARY)(x))
    return [x.sum()]


@shape
def a_ladder(torch: Any, random: Random) -> list[Any]:
    left, right = leaves(torch, random, 2)
    for _ in range(5):
        left, right = random.choice(BINARY)(left, right), random.choice(UNARY)(right)
    return [(left + right).sum()]


@shape
def a_network(torch: Any, random: Random) -> list[Any]:
    w1, w2, b1, b2, x = leaves(torch, random, 5, size=4)
    hidden = ((w1.view(2, 2) @ x.view(2, 2)) + b1.view(2, 2)).tanh()
    out = w2.view(2, 2) @ hidden + b2.view(2, 2)
    return [(out * out).mean()]


@shape
def a_loop_with_a_hidden_state(torch: Any, random: Random) -> list[Any]:
    w, u, hidden = leaves(torch, random, 3)
    inputs = leaves(torch, random, 4)
    for x in inputs:
        hidden = (hidden * w + x * u).tanh()
    return [hidden.sum()]


@shape
def several_outputs(torch: Any, random: Random) -> list[Any]:
    parts = [part for x in leaves(torch, random, 2, size=4) for part in x.view(4, 1).unbind()]
    random.shuffle(parts)
    used = parts[: random.randint(2, len(parts))]
    return [torch.cat([random.choice(UNARY)(p) for p in used]).sum()]


@shape
def several_roots(torch: Any, random: Random) -> list[Any]:
    x, y = leaves(torch, random, 2)
    middle = random.choice(BINARY)(x, y)
    roots = [random.choice(UNARY)(random.choice([x, y, middle])).sum() for _ in range(4)]
    return [*roots, roots[0]]


@shape
def any_graph(torch: Any, random: Random) -> list[Any]:
    known = leaves(torch, random, random.randint(1, 5))
    for _ in range(random.randint(5, 25)):
        if random.random() < 0.4:
            known.append(random.choice(UNARY)(random.choice(known)))
        else:
            known.append(random.choice(BINARY)(random.choice(known), random.choice(known)))
    return [known[-1].sum() + known[-2].sum()]


@shape
def views_and_writes(torch: Any, random: Random) -> list[Any]:
    x, y = leaves(torch, random, 2, size=6)
    known = [x * 1, y * 1, x * 2]
    views = [base[random.randint(0, 2) : random.randint(3, 6)] for base in known]
    for _ in range(6):
        target = random.choice([*known, *views])
        source = random.choice([x, y])[: target.numel()]
        random.choice([target.mul_, target.add_])(source)
        known.append(random.choice(UNARY)(random.choice([*known[:3], *views])))
    return [torch.cat([t.reshape(-1) for t in (*known, *views)]).sum()]


@shape
def broadcasting(torch: Any, random: Random) -> list[Any]:
    x, y, z = leaves(torch, random, 3, size=2)
    grid = random.choice(BINARY)(x.view(2, 1), y.view(1, 2))
    return [random.choice(BINARY)(grid, z).sum()]
