"""How gradients were combined across ranks, on programs that combine them in different ways."""

from __future__ import annotations

import json
import sys

import pytest

from gradscope.analysis.ranks.audit import Audit, How, audits
from gradscope.analysis.ranks.merge import merged
from tests.record.running import House

pytestmark = pytest.mark.torch

TRAINING = """
import os, sys
import gradscope, torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if size > 1:
    store = "file://" + os.path.abspath("store")
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
data = torch.randn(4, 8, 6, generator=torch.Generator().manual_seed(3))
kept = []
def train(kind):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    head = nn.Linear(3, 2)
    model = net
    if kind == "sharded":
        from torch.distributed.fsdp import fully_shard
        model = fully_shard(net)
    elif size > 1:
        model = DistributedDataParallel(net)
    kept.append(model)  # PyTorch can hang if a model is freed right after its last collective
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.01)
    for step in range(2):
        optimizer.zero_grad()
        x = data[rank * 4 // size : (rank + 1) * 4 // size]
        head(model(x.flatten(0, 1))).square().mean().backward()
        for parameter in head.parameters() if size > 1 and kind != "own" else ():
            dist.all_reduce(parameter.grad)
            if kind != "summed":
                parameter.grad /= size
            if kind == "divided":
                parameter.grad /= size
        if kind == "clipped":
            nn.utils.clip_grad_norm_([*model.parameters(), *head.parameters()], 0.1)
        optimizer.step()
for kind in sys.argv[1:]:
    with gradscope.record(f"{kind}.rank{rank}.json", on="torch", level="values"):
        train(kind)
sys.stdout.flush()
os._exit(0)
"""
HEAD = {
    "averaged": How.AVERAGED,
    "own": How.OWN,
    "summed": How.SUMMED,
    "divided": How.DIVIDED,
    "clipped": How.SCALED,
    "sharded": How.AVERAGED,
}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    """Two ranks that have trained in each way, and one process that has trained alone."""
    house = House(tmp_path_factory.mktemp("audit"))
    house.write(TRAINING)
    for ran in house.run_as_ranks(2, sys.executable, "script.py", *HEAD):
        assert ran.code == 0, ran.err
    alone = {"RANK": "0", "WORLD_SIZE": "1"}
    assert house.run(sys.executable, "script.py", "alone", env=alone).code == 0
    return house


def audited(house: House, kind: str) -> Audit:
    whole = merged([house.recorded(f"{kind}.rank{rank}.json") for rank in range(2)])
    [found] = audits(whole, against=house.recorded("alone.rank0.json"))
    return found


@pytest.mark.parametrize("kind", HEAD)
def test_how_gradients_were_combined_is_told(house: House, kind: str) -> None:
    *model, weight, bias = audited(house, kind).parameters

    expected = How.SCALED if kind == "clipped" else How.AVERAGED
    assert {one.how for one in model} == {expected}
    assert {weight.how, bias.how} == {HEAD[kind]}


@pytest.mark.parametrize(
    ("kind", "times"), [("averaged", 1), ("summed", 2), ("divided", 0.5), ("sharded", 1)]
)
def test_gradients_are_compared_with_those_of_one_process(
    house: House, kind: str, times: float
) -> None:
    *model, weight, _ = audited(house, kind).parameters

    assert [one.against for one in model] == pytest.approx([1] * len(model), rel=0.01)
    assert weight.against == pytest.approx(times, rel=0.01)


def test_parts_and_copies_are_distinguished(house: House) -> None:
    layouts = [one.layout for one in audited(house, "sharded").parameters]

    assert layouts == ["Shard(0)"] * 4 + ["replicated"] * 2


def test_the_command_says_it_in_rows_and_as_json(house: House) -> None:
    traces = [f"own.rank{rank}.json" for rank in range(2)]

    ran = house.gradscope("audit", *traces)
    said = json.loads(house.gradscope("audit", "--json", *traces).out)

    assert "not combined: each rank used its own gradient" in ran.out
    [optimizer] = said["optimizers"]
    assert [each["how"] for each in optimizer["parameters"]] == ["averaged"] * 4 + ["own"] * 2


def test_one_process_and_steps_that_were_not_measured_are_refused(house: House) -> None:
    alone = house.gradscope("audit", "alone.rank0.json")
    late = house.gradscope("audit", "--step", "9", *[f"own.rank{rank}.json" for rank in range(2)])

    assert (alone.code, late.code) == (2, 2)
    assert "pass the traces of all ranks" in alone.err
    assert "not step 9 was measured" not in late.err
    assert "step 9 was not measured on all ranks" in late.err
