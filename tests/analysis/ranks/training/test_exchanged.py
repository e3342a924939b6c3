"""What is said of collectives of the program, and of what looks like it, on two processes."""

from __future__ import annotations

from pathlib import Path

import pytest

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
