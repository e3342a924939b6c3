"""Rules about the samples of ranks, on programs with data loaders that train on two processes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gradscope.analysis.findings import Finding, Severity
from gradscope.analysis.ranks.merging.merge import merged
from gradscope.analysis.report import inspect
from tests.analysis.ranks.test_rank_rules import START
from tests.analysis.ranks.test_training_rules import ALL
from tests.record.running import House

pytestmark = pytest.mark.torch

PATIENCE = 300
"""Seconds; each folder has many programs."""

TRAINING = """
from torch.utils.data import (
    BatchSampler, DataLoader, DistributedSampler, IterableDataset, RandomSampler, Subset,
    TensorDataset, WeightedRandomSampler, random_split,
)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
generator = torch.Generator().manual_seed(0)
table = torch.randn({many}, 4, generator=generator)
rows = TensorDataset(table)
torch.manual_seed(rank)
class Stream(IterableDataset):
    def __iter__(self):
        mine = torch.Generator().manual_seed(rank)
        for _ in range(32):
            yield torch.randn(4, generator=mine),
class Reordered(DistributedSampler):
    def __iter__(self):
        return iter(torch.randint({many}, (16,)).tolist())
model = DistributedDataParallel(nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(x):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
def evaluate(x):
    with torch.no_grad():
        total = model(x).square().sum()
    dist.all_reduce(total)
{prepare}
for epoch in range({epochs}):
    {begin}
    for (x,) in {loader}:
        {step}
    {end}
dist.destroy_process_group()
"""
SOUND = {
    "prepare": "sampler = DistributedSampler(rows)",
    "many": 33,
    "epochs": 2,
    "begin": "sampler.set_epoch(epoch)",
    "loader": "DataLoader(rows, 4, sampler=sampler)",
    "step": "train(x)",
    "end": "",
}
BUGS: dict[str, tuple[str, str, dict[str, object]]] = {
    "other epochs": ("GS021", "for (x,) in", {"begin": "sampler.set_epoch(epoch + rank)"}),
    "one rank twice": (
        "GS021", "DistributedSampler(rows, 2, 0)",
        {"prepare": "sampler = DistributedSampler(rows, 2, 0)"},
    ),
    "more parts than ranks": (
        "GS021", "DistributedSampler(rows, 8, rank)",
        {"prepare": "sampler = DistributedSampler(rows, 8, rank)"},
    ),
    "a block of each batch": (
        "GS022", "train(x[2 *", {"many": 32, "step": "train(x[2 * rank :][:2])"},
    ),
    "every second of each batch, moved": (
        "GS022", "x.double()",
        {"many": 32, "step": "y = x.double().float(); train(y[rank::size])"},
    ),
    "one order": ("GS011", "for epoch in range", {"begin": ""}),
    "a constant epoch": ("GS011", "for epoch in range", {"begin": "sampler.set_epoch(7)"}),
    "the same noise": (
        "GS009", "torch.manual_seed(3)",
        {
            "prepare": f"{SOUND['prepare']}; torch.manual_seed(3)",
            "step": "train(x + torch.randn_like(x))",
        },
    ),
    "the same part evaluated": (
        "GS023", "total = sum(model",
        {
            "prepare": f"{SOUND['prepare']}\n"
            "def evaluate(x):\n"
            "    many = len(x) // dist.get_world_size()\n"
            "    with torch.no_grad():\n"
            "        total = sum(model(x[at : at + 4]).sum() for at in range(0, many, 4))\n"
            "    dist.all_reduce(total)",
            "end": "evaluate(table)",
        },
    ),
}  # fmt: skip
HEALTHY: dict[str, dict[str, object]] = {
    "as it is": {},
    "padding": {"loader": "DataLoader(rows, 2, sampler=sampler)"},
    "workers": {"loader": "DataLoader(rows, 4, sampler=sampler, num_workers=1)"},
    "the last samples dropped": {"prepare": "sampler = DistributedSampler(rows, drop_last=True)"},
    "with replacement": {
        "loader": "DataLoader(rows, 4, sampler=WeightedRandomSampler([1.0] * 33, 16))"
    },
    "a sampler of its own": {"prepare": "sampler = Reordered(rows)"},
    "an order of each rank": {"loader": "DataLoader(rows, 4, shuffle=True)"},
    "streams": {"loader": "DataLoader(Stream(), 4)"},
    "batches of batches": {
        "loader": "DataLoader(rows, batch_sampler=BatchSampler(sampler, 4, True))"
    },
    "one split": {
        "prepare": "part, _ = random_split(rows, [24, 9], generator)\n"
        "sampler = DistributedSampler(part)",
        "loader": "DataLoader(part, 4, sampler=sampler)",
    },
    "not to be shuffled": {
        "prepare": "sampler = DistributedSampler(rows, shuffle=False)", "begin": ""
    },
    "one epoch": {"begin": "", "epochs": 1},
    "a first look on one rank": {
        "begin": "sampler.set_epoch(epoch)\n    if rank == 0: next(iter(DataLoader(rows, 4, "
        "sampler=sampler)))"
    },
    "evaluated in one order": {
        "prepare": "sampler, fixed = DistributedSampler(rows), DistributedSampler(rows)",
        "end": "for (x,) in DataLoader(rows, 4, sampler=fixed): evaluate(x)",
    },
    "evaluated on all ranks": {"end": "evaluate(table)"},
    "evaluated in half, as all of it is": {"end": "evaluate(table[:16])"},
    "micro-batches": {"step": "for part in x.split(2): train(part)"},
    "the first half of each batch": {"step": "train(x[:2])"},
    "the part of the rank of all": {
        "loader": "DataLoader(rows, 4, generator=torch.Generator().manual_seed(epoch), "
        "shuffle=True, drop_last=True)",
        "step": "train(x[rank::size])",
    },
    "noise for all ranks, and the part of each": {
        "prepare": f"{SOUND['prepare']}; torch.manual_seed(3)",
        "loader": "DataLoader(rows, 4, sampler=sampler, drop_last=True)",
        "step": "train(x + torch.randn(8, 4)[rank::size])",
    },
    "noise of each rank's generator": {
        "prepare": f"{SOUND['prepare']}; torch.manual_seed(3); mine = torch.Generator()\n"
        "mine.manual_seed(rank)",
        "step": "torch.rand(1); train(x + torch.randn(len(x), 4, generator=mine))",
    },
    "numbers that are the data": {
        "prepare": f"{SOUND['prepare']}; torch.manual_seed(3)",
        "step": "train(torch.randn(8, 4) + rank)",
    },
    "the same probe for all": {
        "prepare": f"{SOUND['prepare']}; torch.manual_seed(3)",
        "step": "probe = torch.randn(4); train(x * probe)",
        "loader": "DataLoader(rows, 3, sampler=sampler, drop_last=True)",
    },
}  # fmt: skip


def found_in(house: House, name: str) -> list[Finding]:
    whole = merged([house.recorded(f"{name}.rank{rank}.json") for rank in range(2)])
    report = inspect(whole)
    assert not report.faults
    return [each for each in report.findings if each.severity > Severity.NOTE]


def trained(folder: Path, changes: dict[str, dict[str, object]]) -> House:
    """Two processes that have run these programs, one after the other."""
    house = House(folder)
    for kind, changed in changes.items():
        house.write(TRAINING.format(**SOUND | changed), f"{kind}.py")
    house.write(START + ALL.format(kinds=[*changes]))
    for ran in house.run_as_ranks(2, sys.executable, "script.py", patience=PATIENCE):
        assert ran.code == 0, ran.err
    return house


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> House:
    changes = {kind: changed for kind, (*_, changed) in BUGS.items()}
    return trained(tmp_path_factory.mktemp("wrong"), changes)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> House:
    return trained(tmp_path_factory.mktemp("sound"), HEALTHY)


@pytest.mark.parametrize("kind", BUGS)
def test_wrong_parts_of_the_data_are_named(wrong: House, kind: str) -> None:
    found = found_in(wrong, kind)

    rule, text, _ = BUGS[kind]
    assert [each.rule for each in found] == [rule]
    assert text in found[0].site.text


@pytest.mark.parametrize("kind", HEALTHY)
def test_nothing_is_said_against_parts_that_look_wrong(sound: House, kind: str) -> None:
    assert found_in(sound, kind) == []
