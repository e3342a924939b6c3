"""Generators that a program makes and seeds are told of, on both engines."""

from __future__ import annotations

import pytest

from gradscope.analysis.findings import Severity
from gradscope.analysis.report import inspect
from gradscope.trace.schema import Act
from tests.record.acts.test_acts import lines
from tests.record.running import House
from tests.shared.acts import all_said

SEEDED = """import torch
net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

def noise():
    return torch.randn(3, 2, generator=torch.Generator().manual_seed(5))

kept = torch.Generator()
for _ in range(3):
    optimizer.zero_grad()
    kept.manual_seed(6)
    net(noise() + torch.randn(3, 2, generator=kept)).pow(2).mean().backward()
    optimizer.step()
other = torch.Generator().manual_seed(7)
print(isinstance(other, torch.Generator), other.initial_seed())
"""


@pytest.mark.parametrize("engine", ["gradscope", pytest.param("torch", marks=pytest.mark.torch)])
def test_a_generator_seeded_again_in_each_step_is_told_and_named(house: House, engine: str) -> None:
    house.write(SEEDED)

    ran = house.trace("--on", engine, "script.py")

    trace = house.recorded()
    seeds = [row for row in trace.rows(Act) if row.kind == "seed"]
    told = [
        (each["seed"], each["whose"], each.get("again", False)) for each in all_said(trace, "seed")
    ]
    assert told == [
        ("6", "generator", False), ("5", "generator", False),
        *[("6", "generator", True), ("5", "generator", False)] * 2,
        ("7", "generator", False),
    ]  # fmt: skip
    assert [lines(trace, row.stack)[0] for row in seeds] == [11, 6, 11, 6, 11, 6, 14]
    assert ran.out == "True 7\n"
    assert [(each.slug, each.site.line, each.severity) for each in inspect(trace).findings] == [
        ("reseeded", 11, Severity.WARNING),
        ("reseeded", 6, Severity.NOTE),  # each one is new, and may be for numbers that stay
    ]


LATE = """import torch
net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    torch.manual_seed(0)
print(torch.manual_seed.__name__)
"""


@pytest.mark.torch
def test_seeds_are_told_when_pytorchs_compiler_was_imported_since(house: House) -> None:
    house.write(LATE)

    ran = house.trace("--on", "torch", "script.py")

    assert ran.out == "manual_seed\n"
    seeds = [row for row in house.recorded().rows(Act) if row.kind == "seed"]
    assert [lines(house.recorded(), row.stack)[0] for row in seeds] == [5, 5]


DRAWS = """import torch
torch.manual_seed(3)
net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    net(torch.randn(3, 2)).sum().backward()
    optimizer.step()
print(torch.rand(1).item())
"""


def states(house: House, engine: str, script: str) -> tuple[list[int], str]:
    house.write(script)
    ran = house.trace("--level", "values", "--on", engine, "script.py")
    return [each["random"] for each in all_said(house.recorded(), "step")], ran.out


@pytest.mark.torch
def test_the_state_random_numbers_follow_from_is_told_after_each_step(house: House) -> None:
    one, said = states(house, "torch", DRAWS)
    unwatched = house.python("script.py").out
    other, _ = states(house, "gradscope", DRAWS)
    later, _ = states(house, "torch", DRAWS.replace("net(t", "step == 1 and torch.rand(1); net(t"))

    assert one == other  # both engines draw the same from the same bytes
    assert len(set(one)) == 3
    assert later[0] == one[0]
    assert later[1] != one[1]
    assert said == unwatched


RECOMPUTED = """import random
import torch
from torch.utils.checkpoint import checkpoint
torch.manual_seed(0)
net = torch.nn.Linear(2, 2)

def by_python(x):
    return net(x) * random.random()

def by_torch(x):
    return net(x) * torch.rand(())

x = torch.ones(3, 2, requires_grad=True)
checkpoint(by_python, x, use_reentrant=False).sum().backward()
checkpoint(by_torch, x, use_reentrant=False).sum().backward()
checkpoint(by_torch, x, use_reentrant=False, preserve_rng_state=False).sum().backward()
checkpoint(net, x, use_reentrant=False, preserve_rng_state=False).sum().backward()
"""


@pytest.mark.parametrize("engine", ["gradscope", pytest.param("torch", marks=pytest.mark.torch)])
def test_random_numbers_that_a_recompute_does_not_get_again_are_named(
    house: House, engine: str
) -> None:
    house.write(RECOMPUTED)

    house.trace("--on", engine, "script.py")

    found = inspect(house.recorded()).findings
    assert [(each.slug, each.site.line) for each in found] == [
        ("recompute-differs", 14),
        ("recompute-differs", 16),
    ]
