"""Samples of arithmetic."""

from __future__ import annotations

from tests.runtime.oracle import Sample, Wrong, samples, wrong

samples(
    "mul",
    Sample(lambda torch, x, y: torch.mul(x, y), (3, 4), (3, 4)),
    Sample(lambda torch, x, y: x.mul(y), (3, 4), (4,)),
    Sample(lambda torch, x: torch.mul(x, 3), (3, 4)),
    Sample(lambda torch, x, y: torch.mul(x, y), (2, 0), ()),
)
samples("mul_", Sample(lambda torch, x, y: x.clone().mul_(y), (3, 4), (4,)))
wrong(
    "mul",
    Wrong(lambda torch, x, y: torch.mul(x, y), (3, 4), (5,)),
    Wrong(lambda torch, x: x.mul_(2), (3,)),
)
samples("add", Sample(lambda torch, x, y: torch.add(x, y), (3, 4), (4,)))
