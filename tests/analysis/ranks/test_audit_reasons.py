"""What `gradscope audit` says about ranks that did different things."""

from __future__ import annotations

import sys

import pytest

from tests.record.running import House

pytestmark = pytest.mark.torch

TRAINING = """
import os, sys
import gradscope, torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = "file://" + os.path.abspath("store")
dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
kept = []
def train(kind):
    torch.manual_seed(0)
    net = nn.Sequential(*[nn.Linear(6, 6) for _ in range(4)])
    model = fully_shard(net) if kind == "scaled" else net
    kept.append(model)
    own = [*model.parameters()]
    if kind == "stages":
        own = [*(model[:2] if rank else model[1:]).parameters()]
    if kind == "acts" and rank:
        dist.all_reduce(torch.ones(1))
        return
    optimizer = torch.optim.SGD(own, lr=0.01)
    random = torch.Generator().manual_seed(rank)
    for step in range(3):
        optimizer.zero_grad()
        (model(torch.randn(8, 6, generator=random)) + 1).square().mean().backward()
        for parameter in own:
            if kind == "scaled":
                parameter.grad.to_local().mul_((0.25, 0.75)[rank])
            elif kind == "skips":
                dist.all_reduce(parameter.grad)
                parameter.grad /= size
        if kind != "skips" or rank or step != 1:
            optimizer.step()
    if kind == "acts":
        dist.all_reduce(torch.ones(1))
for kind in sys.argv[1:]:
    with gradscope.record(f"{kind}.rank{rank}.json", on="torch", level="values"):
        train(kind)
sys.stdout.flush()
os._exit(0)
"""
KINDS = ("scaled", "stages", "skips", "acts")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    """Two ranks that have trained in each way."""
    house = House(tmp_path_factory.mktemp("reasons"))
    house.write(TRAINING)
    for ran in house.run_as_ranks(2, sys.executable, "script.py", *KINDS):
        assert ran.code == 0, ran.err
    return house


def said(house: House, kind: str, *more: str) -> str:
    ran = house.gradscope("audit", *more, *[f"{kind}.rank{rank}.json" for rank in range(2)])
    return ran.out + ran.err


def test_parts_scaled_by_another_factor_on_each_rank_have_the_factor_of_each(house: House) -> None:
    assert "averaged, times 0.25 on rank 0, 0.75 on rank 1" in said(house, "scaled")


def test_different_parameters_are_a_reason_for_no_rows(house: House) -> None:
    shown = said(house, "stages")

    assert "the ranks optimize different parameters, so there is nothing to compare" in shown
    assert "6 on rank 0, 4 on rank 1" in shown


def test_steps_are_aligned_although_a_rank_skipped_one(house: House) -> None:
    shown = said(house, "skips", "--step", "1")

    assert "as step 2 of rank 1" in shown
    assert "averaged" in shown
    assert "divided" not in shown


def test_a_rank_without_an_optimizer_is_a_reason(house: House) -> None:
    assert "there is no optimizer on rank 1, so there is nothing to compare" in said(house, "acts")
