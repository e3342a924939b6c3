"""Drifts of ranks that do not take the same number of steps, in programs with gloo."""

from __future__ import annotations

import pytest

from gradscope.analysis.ranks.merging.merge import merged
from gradscope.analysis.report import inspect
from tests.analysis.ranks.test_training_rules import trained
from tests.record.running import House

pytestmark = pytest.mark.torch

BY_HAND = """
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for step in range(6):
    optimizer.zero_grad(set_to_none=False)
    finite = not (rank == 1 and step == 3)
    if finite or step == 0:
        model(torch.randn(8, 4)).square().mean().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= 2
    if {steps}:
        optimizer.step()
dist.destroy_process_group()
"""
UNEVEN = """
from torch.distributed.algorithms.join import Join
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for epoch in range(3):
    with Join([model]):
        for _ in range(3 + 2 * rank):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
dist.destroy_process_group()
"""


def differs(house: House, name: str) -> list[tuple[str, str]]:
    whole = merged([house.recorded(f"{name}.rank{rank}.json") for rank in range(2)])
    report = inspect(whole, rules=["replicas-differ"])
    assert not report.faults
    return [(each.message, each.why) for each in report.findings]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    scripts = {
        "skips": BY_HAND.format(steps="finite"),
        "joins": BY_HAND.format(steps="True"),
        "uneven": UNEVEN,
    }
    return trained(tmp_path_factory.mktemp("rounds"), scripts)


def test_a_rank_that_left_out_a_backward_and_a_step_took_none_where_others_did(
    house: House,
) -> None:
    [(message, why)] = differs(house, "skips")
    assert message.startswith("Replicas differ: rank 1 took no step where rank 0 took step 3 at ")
    assert "ranks may have parted at skips.py:" in why


def test_a_step_of_all_ranks_with_the_gradient_of_some_is_no_drift(house: House) -> None:
    assert differs(house, "joins") == []


def test_ranks_with_fewer_batches_are_compared_in_the_steps_of_all(house: House) -> None:
    assert differs(house, "uneven") == []
