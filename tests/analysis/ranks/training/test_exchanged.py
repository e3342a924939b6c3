"""What is said of collectives of the program, and of what looks like it, on two processes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gradscope.analysis.ranks.training.exchanged.held import loops_over_sets
from tests.analysis.ranks.test_rank_rules import findings
from tests.record.running import House

pytestmark = pytest.mark.torch

TRAINING = """
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
model = DistributedDataParallel(nn.Linear(40, 30))
shard, scale = nn.Parameter(torch.randn(40, 30)), nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([*model.parameters(), shard, scale], lr=1e-3)
for parameter in model.parameters():
    dist.broadcast(parameter.data, 0)
def empty(own):
    return [torch.zeros_like(own) for _ in range(size)]
for step in range(4):
    own = model(torch.randn(6, 40))
    parts = empty(own)
    dist.all_gather(parts, own)  # GS013: without a backward
    loss = (own @ torch.stack(parts).mean(0).T).square().mean()

    parts = empty(own)
    dist.all_gather(parts, own)
    loss = loss + torch.stack([*parts[:rank], own, *parts[rank + 1:]]).square().mean()

    parts = empty(own)
    dist.all_gather(parts, own.detach())
    loss = loss + (own * parts[1 - rank]).mean()

    parts = empty(own)
    dist.all_gather(parts, own)
    correct = torch.stack(parts).argmax(2).eq(own.argmax(1)).float().mean().item()

    spread = own.square().mean(0)
    dist.all_reduce(spread)  # GS013: in place
    loss = loss + (spread / size).sqrt().sum()

    spread = own.square().mean(0)
    dist.all_reduce(spread)
    loss = loss + size * spread.sqrt().sum()

    logged = own.mean()
    dist.all_reduce(logged)
    loss = loss + 0.1 * logged

    mean = own.mean(0)
    dist.all_reduce(mean.data)  # GS013: `.data`
    loss = loss + (own - mean.detach()).square().mean()

    product = torch.ones(6, 40) @ shard
    dist.all_reduce(product)
    loss = loss * scale + (product / size).square().mean()

    pending = torch.ones(3)
    work = dist.all_reduce(pending, async_op=True)
    early = pending * 2  # GS014
    work.wait()
    late = pending * 2

    optimizer.zero_grad()
    loss.backward()
    with torch.no_grad():
        scale.grad /= size
        work = dist.all_reduce(scale.grad, async_op=True)
        while not work.is_completed():
            pass
    optimizer.step()
    if step < 3:
        for parameter in model.parameters():
            dist.broadcast(parameter.data, 0)  # GS016
    seldom = [*model.parameters()][:step == 3]
    for parameter in seldom:
        dist.broadcast(parameter.data, 0)
dist.destroy_process_group()
"""


def test_each_misuse_is_named_at_its_line_and_nothing_else(tmp_path: Path) -> None:
    found = findings(House(tmp_path), TRAINING)

    named = {(each.rule, each.site.text.partition("  # ")[2][:5]) for each in found}
    assert named == {("GS013", "GS013"), ("GS014", "GS014"), ("GS016", "GS016")}
    assert len(found) == 5
    ways = sorted(each.why[:20] for each in found if each.rule == "GS013")
    assert ways == ["`.data` has no graph", "the sum was written ", "what comes back has "]


KEYS = """
dist.init_process_group("gloo")
rank = dist.get_rank()
names = ["a", "b", "c"] if rank == 0 else ["c", "b", "a"]
totals = {name: torch.ones(2) for name in names}
for name in sorted(totals):
    dist.all_reduce(totals[name])
for name, total in totals.items():
    dist.all_reduce(total.clone())
files = {f"{rank}/{name}": torch.ones(2) for name in names}
for name, total in files.items():
    dist.all_reduce(total)
for name, total in totals.items():
    dist.all_reduce(total)  # GS015
dist.destroy_process_group()
"""


def test_only_the_same_keys_in_different_orders_are_named(tmp_path: Path) -> None:
    [found] = findings(House(tmp_path), KEYS)

    assert (found.rule, found.site.text) == ("GS015", "dist.all_reduce(total)  # GS015")
    assert "rank 0 passed totals['a'], rank 1 passed totals['c']" in found.message
    assert "2 calls" in found.why


NAMED_OTHERWISE = """
dist.init_process_group("gloo")
rank = dist.get_rank()
net = nn.Sequential(*(nn.Linear(3, 3, bias=False) for _ in range(3)))
net(torch.ones(2, 3)).sum().backward()
for each in net.parameters():
    dist.all_reduce(each.grad)
for each in [*net.parameters()][:: 1 - 2 * rank]:
    dist.all_reduce(each.grad)  # GS015: gradients
order = [8, 0, 16] if rank else [0, 16, 8]  # in a set of small numbers, 0 and 8 have one place
for number in order:
    dist.all_reduce(torch.tensor(float(number)))
seen = set(order)
for number in sorted(seen):
    dist.all_reduce(torch.tensor(float(number)))
for number in seen:
    dist.all_reduce(torch.tensor(float(number)))  # GS015: set
dist.destroy_process_group()
"""


def test_gradients_and_rounds_of_a_loop_over_a_set_are_told_apart(tmp_path: Path) -> None:
    found = findings(House(tmp_path), NAMED_OTHERWISE)

    assert [each.site.text.partition("  # ")[2] for each in found] == [
        "GS015: gradients", "GS015: set",
    ]  # fmt: skip
    gradients, rounds = found
    assert "rank 0 passed the gradient of 0.weight, rank 1 passed the gradient of 2.weight" in (
        gradients.message
    )
    assert "number = 0" in rounds.message
    assert "the loop over a set" in rounds.why


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("for x in {1, 2}: pass", [1]),
        ("for x in set(y) | z: pass", [1]),
        ("seen = {a for a in b}\nfor i, x in enumerate(seen): pass", [2]),
        ("seen = list(set(a))\nfor x in sorted(set(a)): pass", []),
        ("for x in {}: pass\nfor y in dict.fromkeys(a): pass", []),
    ],
)
def test_loops_over_sets_are_found_in_the_source(text: str, lines: list[int]) -> None:
    assert [each.line for each in loops_over_sets(ast.parse(text))] == lines


APART = """
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
net = nn.Linear(4, 2)
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
seen = torch.zeros(())
for step in range(4):
    optimizer.zero_grad()
    (net if step > 1 else model)(torch.randn(8, 4)).square().mean().backward()  # GS003
    optimizer.step()
    work = dist.all_reduce(seen, async_op=True)
    shown = seen + 1  # GS014
    work.wait()
dist.destroy_process_group()
"""


def test_a_number_used_too_early_hides_no_drift_of_parameters(tmp_path: Path) -> None:
    found = findings(House(tmp_path), APART)

    named = {(each.rule, each.site.text.partition("  # ")[2]) for each in found}
    assert named == {("GS003", "GS003"), ("GS014", "GS014")}
