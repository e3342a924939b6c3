"""Rules about the steps of ranks: what they used, how long they took, and their data."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from gradscope.analysis.findings import Finding
from gradscope.analysis.identity.sites import Site
from gradscope.analysis.ranks.merging.merge import merged
from gradscope.analysis.ranks.merging.one_rank import RankPart
from gradscope.analysis.ranks.training.slow import BEFORE, SlowRank, _Paced, _slow
from gradscope.analysis.report import inspect
from gradscope.trace.assemble import assemble
from gradscope.trace.trace import Trace
from tests.analysis.ranks.test_rank_rules import START, ranks
from tests.record.running import House
from tests.shared.forked_starts import GRADSCOPE

OWN = [f"GS{number:03}" for number in range(5, 12)]

NETS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.other = nn.Linear(4, 4), nn.Linear(4, 2), nn.Linear(4, 2)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def branch(self, x, odd):
        x = self.body(x)
        if odd:
            return self.other(x)  # left here
        return self.head(x)

    def cut(self, x, odd):
        x = self.body(x)
        if odd: x = x.detach()  # cut here
        return self.head(x)

    def expert(self, x, odd):
        x = self.body(x)
        return self.head(self.experts[odd](x))  # one of them

    def skip(self, x, odd):
        for place, expert in enumerate(self.experts):
            if odd and place == 1:  # skipped here
                continue
            x = expert(x)
        return self.head(x)

    def forward(self, x, odd, way):
        return getattr(self, way)(x, odd)
"""
USING = """
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DistributedDataParallel(Net(), find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4), {odd}, "{way}").square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""
ODD = "rank == 1 and step == 2"
USED = {
    "branch": ("if odd:", "rank 1 did not run that line: the branch"),
    "cut": ("# cut here", "detach() cut the graph"),
    "expert": ("# one of them", "ran that line without it"),
    "skip": ("# skipped here", "may have left it out"),
}
FEEDING = """
import time
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
dist.init_process_group("gloo")
rank = dist.get_rank()
generator = torch.Generator().manual_seed(0)
data = torch.randn(24, 8, 4, generator=generator)
def loaded(epochs, batch=4):
    rows = TensorDataset(data[:, 0])
    sampler = DistributedSampler(rows, shuffle={shuffle})
    for epoch in range(epochs):
        for (x,) in DataLoader(rows, batch_size=batch, sampler=sampler):
            yield x
model = DistributedDataParallel(nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank)
for x in {batches}:
    optimizer.zero_grad()
    {loss}.backward()
    optimizer.step()
    {after}
dist.destroy_process_group()
"""
SOUND = {
    "batches": "data[rank::2]",
    "loss": "model(x).square().mean()",
    "after": "",
    "shuffle": True,
}
DATA = {
    "one batch of each epoch": (
        "GS010",
        {"batches": "[*data[4 * rank : 4 * rank + 5], *data[4 * rank : 4 * rank + 5]]"},
    ),
    "two steps later": ("GS010", {"batches": "data[2 * rank : 2 * rank + 8]"}),
    "divided by another count": (
        "GS008", {"loss": "(model(x[: 8 - 3 * rank]).sum() / torch.tensor(8 - 3 * rank))"},
    ),
    "never shuffled anew": ("GS011", {"batches": "loaded(3)"}),
}  # fmt: skip
HEALTHY = {
    "as it is": {},
    "parts in turn": {
        "batches": "[x for e in range(3) for x in data[12 * ((rank + e) % 2) :][:6]]"
    },
    "the same values of a schedule": {
        "loss": "(model(x) * torch.full((8, 2), x.new_tensor(1.0).item() / 3)).square().mean()",
    },
    "the same masks of another size": {"loss": "(model(x) * (torch.ones(8, 2) - 0.5)).sum()"},
    "not to be shuffled": {"batches": "loaded(3)", "shuffle": False},
    "a smaller last batch on all ranks": {"batches": "loaded(1, batch=5)"},
    "a sum over other sizes": {"loss": "model(x[: 8 - 3 * rank]).square().sum()"},
    "a count of all ranks": {"loss": "(model(x[: 8 - 3 * rank]).sum() / torch.tensor(13))"},
    "the first rank logs now and then": {
        "after": "time.sleep(0.05 * (rank == 0 and x is data[4]))"
    },
}
ALL = """
import gradscope, runpy
kept = []  # PyTorch can hang if a model is freed right after its last collective
for kind in {kinds}:
    with gradscope.record(f"{{kind}}.rank{{os.environ['RANK']}}.json", on="torch", level="values"):
        kept.append(runpy.run_path(f"{{kind}}.py", globals()))
    os.environ["STORE"] = kind
os._exit(0)
"""


def own_findings(house: House, name: str) -> list[Finding]:
    """What the rules of this file find about two ranks, and notes."""
    whole = merged([house.recorded(f"{name}.rank{rank}.json") for rank in range(2)])
    report = inspect(whole, rules=OWN)
    assert not report.faults
    return [*report.findings]


def trained(folder: Path, scripts: Mapping[str, str]) -> House:
    """Two processes that have run these scripts, one after the other."""
    house = House(folder)
    for kind, script in scripts.items():
        house.write(script, f"{kind}.py")
    house.write(START + ALL.format(kinds=[*scripts]))
    ranks(house, sys.executable, "script.py")
    return house


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> House:
    scripts = {way: NETS + USING.format(way=way, odd=ODD) for way in USED}
    scripts["all odd"] = NETS + USING.format(way="branch", odd="step == 2")
    return trained(tmp_path_factory.mktemp("used"), scripts)


@pytest.fixture(scope="module")
def fed(tmp_path_factory: pytest.TempPathFactory) -> House:
    changes = {kind: changed for kind, (_, changed) in DATA.items()}
    scripts = {kind: FEEDING.format(**SOUND | changed) for kind, changed in changes.items()}
    return trained(tmp_path_factory.mktemp("fed"), scripts)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> House:
    scripts = {kind: FEEDING.format(**SOUND | changed) for kind, changed in HEALTHY.items()}
    return trained(tmp_path_factory.mktemp("sound"), scripts)


@pytest.mark.torch
@pytest.mark.parametrize("way", USED)
def test_the_reason_why_a_rank_did_not_use_a_parameter_is_named(used: House, way: str) -> None:
    found = [each for each in own_findings(used, way) if "on rank 1 in step 2" in each.message]

    text, reason = USED[way]
    assert {each.rule for each in found} == {"GS005"}
    assert any(text in each.site.text and reason in each.why for each in found)
    assert not any(each.severity for each in found)


@pytest.mark.torch
def test_the_line_that_used_a_parameter_on_another_rank_is_named(used: House) -> None:
    [finding] = [each for each in own_findings(used, "branch") if "module.other" in each.message]

    lines = (used.folder / "branch.py").read_text().split("\n")
    number = next(at for at, line in enumerate(lines, 1) if "# left here" in line)
    assert f"on rank 0 in step 2, and rank 1 used them at branch.py:{number}" in finding.message


@pytest.mark.torch
def test_nothing_is_said_of_what_no_rank_used(used: House) -> None:
    assert own_findings(used, "all odd") == []


@pytest.mark.torch
@pytest.mark.parametrize("kind", DATA)
def test_unequal_parts_of_the_data_are_found(fed: House, kind: str) -> None:
    found = own_findings(fed, kind)

    assert [each.rule for each in found] == [DATA[kind][0]]


@pytest.mark.torch
@pytest.mark.parametrize("kind", HEALTHY)
def test_nothing_is_said_against_sound_data(sound: House, kind: str) -> None:
    assert own_findings(sound, kind) == []


@pytest.mark.torch
def test_an_unfinished_reduction_names_the_parameters_and_the_branch(tmp_path: Path) -> None:
    house = House(tmp_path)
    script = NETS + USING.format(way="branch", odd=ODD)
    house.write(START + script.replace(", find_unused_parameters=True", ""))
    command = (GRADSCOPE, "trace", "-q", "--on", "torch", "script.py")
    ranks(house, *command, fails=True)

    alone = inspect(house.recorded("trace.rank0.json"), rules=["GS301"]).findings
    assert any("got no gradient in the backward before" in each.why for each in alone)
    assert any("`module.other`" in each.why for each in alone)


# -- slow ranks, without processes ----------------------------------------------------------------

STEPS = 20
STEP = 40_000_000
LINES = ("load", "forward", "log", "SGD.step")


def paced(rank: int, spent: dict[str, np.ndarray]) -> _Paced:
    """A rank that spends these times on its lines, and then begins a backward."""
    begins, lasts, now = {}, {}, 0
    for step in range(STEPS):
        begins[step] = now + int(sum(times[step] for times in spent.values()))
        lasts[step] = STEP + int(sum(times[step] for times in spent.values()))
        now += STEP * 100
    return _Paced(
        RankPart(rank, Trace(assemble([]).tables), np.zeros(0, np.int64)),
        begins,
        lasts,
        dict.fromkeys(begins, 0),
        {(name, BEFORE): dict(enumerate(times.tolist())) for name, times in spent.items()},
        {name: Site(name, name, "train.py", 1) for name in spent},
        10_000_000,
    )


def slow(*ranks: dict[str, np.ndarray]) -> SlowRank | None:
    return _slow([paced(rank, spent) for rank, spent in enumerate(ranks)])


def drawn(
    random: np.random.Generator, scale: float = 1.0, *, disturbed: float = 0.125
) -> dict[str, np.ndarray]:
    """Times of a few ms; this part of them is interrupted by other processes."""
    return {
        name: (scale * random.gamma(4, 500_000, STEPS)).astype(int)
        + (random.random(STEPS) < disturbed) * random.integers(0, 60_000_000, STEPS)
        for name in LINES
    }


def test_a_slow_line_of_a_rank_is_found() -> None:
    random = np.random.default_rng(1)
    one, other = (drawn(random, disturbed=0.02) for _ in range(2))
    other["log"] += 50_000_000

    found = slow(one, other)

    assert found is not None
    assert (found.rank, found.name, found.how) == (1, "log", BEFORE)
    assert found.share > 0.4


def test_a_slow_line_that_only_one_rank_has_is_found() -> None:
    random = np.random.default_rng(2)
    one, other = (drawn(random, disturbed=0.02) for _ in range(2))
    one["save"] = np.full(STEPS, 80_000_000)

    found = slow(one, other)

    assert found is not None
    assert (found.rank, found.name, found.others) == (0, "save", 0)


@pytest.mark.parametrize("scale", [1, 4])
def test_a_busy_machine_or_a_slower_device_is_no_slow_rank(scale: float) -> None:
    for seed in range(50):
        random = np.random.default_rng(seed)
        assert slow(drawn(random), drawn(random, scale)) is None


def test_a_rank_that_is_late_once_is_not_slow() -> None:
    random = np.random.default_rng(3)
    one, other = drawn(random), drawn(random)
    other["log"][7] += 10_000_000_000

    assert slow(one, other) is None
