"""Ranks that others wait for again and again, in programs of two processes with gloo."""

from __future__ import annotations

import pytest

from gradscope.analysis.ranks.merging.merge import merged
from gradscope.analysis.report import inspect
from tests.analysis.ranks.test_training_rules import trained
from tests.record.running import House

TRAINING = """
import time
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DistributedDataParallel(nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


@torch.no_grad()
def evaluate(seconds):
    model.module(torch.ones(1, 4))
    time.sleep(seconds)


{before}
for epoch in range(3):
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    {after}
    dist.barrier()
dist.destroy_process_group()
"""
SOUND = {"before": "", "after": ""}
LATE = {
    "at the barrier": ({"after": "evaluate(0.4) if rank == 0 else None"}, "in barrier"),
    "in the next backward": (
        {"after": "evaluate(0.4) if rank == 1 else None; continue"}, "in a backward",
    ),
}  # fmt: skip
HEALTHY = {
    "a short evaluation": {"after": "evaluate(0.01) if rank == 0 else None"},
    "an evaluation of all ranks": {"after": "evaluate(0.4)"},
    "late once": {"after": "evaluate(0.8) if rank == 0 and epoch == 1 else None"},
    "a long preparation": {"before": "evaluate(1.0) if rank == 0 else None"},
    "checkpoints": {"after": "rank or (model.module.state_dict(), time.sleep(0.4))"},
    "in turns": {"after": "evaluate(0.3) if rank == epoch % 2 else None"},
}


def others_wait(house: House, name: str) -> list[tuple[str, str, str]]:
    """What the rule finds: the message, the line, and the reason."""
    whole = merged([house.recorded(f"{name}.rank{rank}.json") for rank in range(2)])
    report = inspect(whole, rules=["GS024"])
    assert not report.faults
    return [(each.message, each.site.text, each.why) for each in report.findings]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    changes = HEALTHY | {kind: changed for kind, (changed, _) in LATE.items()}
    scripts = {kind: TRAINING.format(**SOUND | changed) for kind, changed in changes.items()}
    return trained(tmp_path_factory.mktemp("late"), scripts)


@pytest.mark.torch
@pytest.mark.parametrize("kind", LATE)
def test_the_line_that_only_the_late_rank_runs_is_named(house: House, kind: str) -> None:
    [(message, line, why)] = others_wait(house, kind)

    changed, where = LATE[kind]
    assert where in message
    assert line == changed["after"]
    assert "a line that only rank" in why


@pytest.mark.torch
@pytest.mark.parametrize("kind", HEALTHY)
def test_nothing_is_said_if_others_do_not_wait_again_and_again(house: House, kind: str) -> None:
    assert others_wait(house, kind) == []
