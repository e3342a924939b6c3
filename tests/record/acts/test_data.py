"""Which samples loaders gave and what models were given, as a rank of several records it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradscope.analysis.identity.sites import site_of
from gradscope.analysis.program.acts import Acts, Done
from gradscope.trace.schema import (
    NONE,
    BatchAct,
    CameInAct,
    DrewAct,
    GivenAct,
    LoaderAct,
    PassAct,
    SamplerAct,
    SplitAct,
)
from gradscope.trace.trace import Trace
from tests.record.running import House
from tests.shared.forked_starts import GRADSCOPE

RANK = {"RANK": "1", "WORLD_SIZE": "2"}
START = """\
import torch
from torch.utils.data import (
    BatchSampler, DataLoader, Dataset, DistributedSampler, IterableDataset, RandomSampler, Subset,
    TensorDataset, random_split,
)
rows = TensorDataset(torch.arange(20.0).reshape(10, 2))
"""
SAMPLED = """\
sampler = DistributedSampler(rows, 2, 1, seed=3)
loader = DataLoader(rows, 2, sampler=sampler)
seen = []
for epoch in range(2):
    sampler.set_epoch(epoch)
    for (x,) in loader:  # here
        seen.append((x[:, 0] / 2).int().tolist())
print(seen)
"""
LOADERS = {
    "plain": "DataLoader(rows, 4)",
    "subsets": "DataLoader(Subset(Subset(rows, [9, 8, 7, 5]), range(1, 4)), 2)",
    "workers": "DataLoader(rows, 2, num_workers=2)",
    "persistent": "DataLoader(rows, 2, num_workers=1, persistent_workers=True)",
    "batch sampler": "DataLoader(rows, batch_sampler=[[1, 2], [5], (7, 0, 3)])",
    "single samples": "DataLoader(rows, batch_size=None, sampler=[3, 1])",
    "odd indices": "DataLoader({'a': torch.ones(2), 'b': torch.ones(2)}, 1, sampler=['a', 'b'])",
    "a stream": "DataLoader(Stream(), 2)",
    "a stream in workers": "DataLoader(Stream(), 2, num_workers=1)",
    "a data set that refuses": "DataLoader(Refuses(), 2, sampler=[1, 2, 3])",
    "in any order": "DataLoader(rows, 5, num_workers=1, in_order=False)",
    "a loader of its own": "Own(rows, 5)",
}
GAVE = {
    "plain": [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9)],
    "subsets": [(8, 7), (5,)],
    "workers": [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)],
    "persistent": [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)],
    "batch sampler": [(1, 2), (5,), (7, 0, 3)],
    "single samples": [(3,), (1,)],
    "odd indices": [(), ()],
    "a stream": [(), ()],
    "a stream in workers": [(), ()],
    "a data set that refuses": [(1, 2), (3,)],
    "in any order": [(), ()],
    "a loader of its own": [(0, 1, 2, 3, 4), (5, 6, 7, 8, 9)],
}
EVERY = """\
class Stream(IterableDataset):
    def __iter__(self):
        return iter([1.0, 2.0, 3.0])
class Refuses(Dataset):
    __slots__ = ()
    def __getitem__(self, at):
        return float(at)
    def __len__(self):
        raise AssertionError("the program does not ask for it")
    def __eq__(self, other):
        raise AssertionError
class Own(DataLoader):
    def __iter__(self):
        for batch in super().__iter__():
            yield batch
loaders = [{loaders}]
for loader in loaders:
    for _ in range(2):
        for batch in loader:
            pass
for batch in loaders[2]:
    break
"""
MODEL = """\
model = torch.nn.Sequential(torch.nn.Linear(2, 1))
x = torch.arange(24.0).reshape(12, 2)
same = x[3:6].clone()
class Both(torch.nn.Module):
    def forward(self, pair, *, scale):
        return pair["a"] * scale
model(x[3:6])
model(x[1::2])
with torch.no_grad():
    model(same)
model(torch.ones(4, 2, requires_grad=True))
Both()({"a": x, "b": 3}, scale=x[0])
Both()({"a": torch.tensor(1.0)}, scale=torch.ones(2, device="meta"))
torch.func.vmap(model)(x)
"""


def recorded(folder: Path, script: str, level: str = "values", **env: str) -> tuple[str, Trace]:
    house = House(folder)
    house.write(START + script)
    asked = (GRADSCOPE, "trace", "-q", "--on", "torch", "--level", level, "-o", "trace.json")
    ran = house.run(*asked, "script.py", env=env)
    assert ran.code == 0, ran.err
    traces = [*folder.glob("trace*.json")]
    assert len(traces) == 1
    return ran.out, house.recorded(traces[0].name)


def given(acts: Acts, of: int) -> list[tuple[int, ...]]:
    return [each.facts.samples for each in acts.of(BatchAct) if each.of == of]


def lines(acts: Acts, act: Done[PassAct]) -> list[str]:
    return [each.text.strip() for each in acts.sites(act)]


@pytest.mark.torch
def test_the_samples_of_each_batch_are_those_that_the_program_saw(tmp_path: Path) -> None:
    out, trace = recorded(tmp_path, SAMPLED, **RANK)
    acts = trace.once(Acts)

    [sampler], [loader] = acts.of(SamplerAct), acts.of(LoaderAct)
    facts = sampler.facts
    assert (facts.replicas, facts.rank, facts.seed, facts.total) == (2, 1, 3, 10)
    assert facts.shuffle
    assert not facts.drop_last
    assert (loader.of, loader.facts.sampler) == (sampler.id, "DistributedSampler")
    assert (loader.facts.data, loader.facts.many, loader.facts.batch) == ("TensorDataset", 10, 2)
    passes = acts.of(PassAct)
    assert [(each.of, each.facts.epoch) for each in passes] == [(loader.id, 0), (loader.id, 1)]
    assert all("# here" in lines(acts, each)[0] for each in passes)
    assert str([[*each] for one in passes for each in given(acts, one.id)]) == out.strip()


@pytest.mark.torch
def test_loaders_of_all_kinds_work_and_give_what_they_give(tmp_path: Path) -> None:
    _, trace = recorded(tmp_path, EVERY.format(loaders=", ".join(LOADERS.values())), **RANK)
    acts = trace.once(Acts)

    loaders = acts.of(LoaderAct)
    assert len(loaders) == len(LOADERS)
    for kind, loader in zip(LOADERS, loaders, strict=True):
        passes = [each.id for each in acts.of(PassAct) if each.of == loader.id]
        assert [given(acts, each) for each in passes[:2]] == [GAVE[kind]] * 2, kind
    workers = [each.id for each in acts.of(PassAct) if each.of == loaders[2].id]
    assert [len(given(acts, each)) for each in workers] == [5, 5, 1]
    assert "gaps" not in trace.meta
    assert not trace.meta.get("faults")


@pytest.mark.torch
def test_parts_of_a_split_are_known(tmp_path: Path) -> None:
    script = "parts = random_split(rows, [7, 3])\nfor (x,) in DataLoader(parts[1], 3): print(x)\n"
    _, trace = recorded(tmp_path, script, **RANK)
    acts = trace.once(Acts)

    [split], [loader] = acts.of(SplitAct), acts.of(LoaderAct)
    assert split.facts.many == (7, 3)
    assert split.facts.digest != NONE
    assert (loader.facts.split, loader.facts.part) == (split.id, 1)


@pytest.mark.torch
@pytest.mark.parametrize("level", ["engine", "values"])
def test_what_the_outermost_module_was_given_is_known(tmp_path: Path, level: str) -> None:
    _, trace = recorded(tmp_path, MODEL, level, **RANK)
    part, odd, same, none, both, neither, *_ = [
        each.facts for each in trace.once(Acts).of(GivenAct)
    ]

    assert (part.many, part.first, part.apart, part.row, part.whole) == (
        (3,), (6,), (2,), (2,), (24,),
    )  # fmt: skip
    assert (odd.many, odd.first, odd.apart) == ((6,), (2,), (4,))
    assert (part.grad, same.grad) == (True, False)
    assert (same.digests == part.digests != odd.digests) == (level == "values")
    assert none.many == neither.many == ()
    assert both.many == (12, 2)


@pytest.mark.torch
def test_random_numbers_with_equal_bits_have_equal_digests(tmp_path: Path) -> None:
    script = """
for seed in (1, 1, 2):
    torch.manual_seed(seed)
    x = torch.randn(3, 2)
    noise = torch.randn_like(x)
    view = noise[1:]  # taken here
    torch.nn.Linear(2, 1)(view).sum().backward()
"""
    _, trace = recorded(tmp_path, script, **RANK)
    acts = trace.once(Acts)

    drew = acts.of(DrewAct)
    assert [(each.facts.by, each.facts.many) for each in drew] == [
        ("randn", 3), ("randn_like", 3),
    ] * 3  # fmt: skip
    digests = [each.facts.digest for each in drew]
    assert digests[:2] == digests[2:4]
    assert len({*digests}) == 4
    taken = [each.facts.taken for each in acts.of(CameInAct) if each.facts.taken != NONE]
    assert taken
    assert all("# taken here" in site_of(trace, each).text for each in taken)


@pytest.mark.torch
@pytest.mark.parametrize("level", ["engine", "values"])
def test_of_one_process_only_samples_are_recorded_and_only_with_values(
    level: str, tmp_path: Path
) -> None:
    script = SAMPLED + "torch.nn.Linear(2, 1)(x)\n"
    _, trace = recorded(tmp_path, script, level)
    acts = trace.once(Acts)

    assert bool(acts.of(LoaderAct, PassAct, BatchAct, SamplerAct)) == (level == "values")
    assert not acts.of(GivenAct)
