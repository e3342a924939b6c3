"""Running statistics of ranks, in programs of two processes with gloo."""

from __future__ import annotations

import pytest

from gradscope.analysis.findings import Severity
from gradscope.analysis.ranks.merging.merge import merged
from gradscope.analysis.report import inspect
from tests.analysis.ranks.test_training_rules import trained
from tests.record.running import House

TRAINING = """
dist.init_process_group("gloo")
rank = dist.get_rank()
net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
model = DistributedDataParallel(net, broadcast_buffers={broadcasts})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
generator = torch.Generator().manual_seed({seed})
for step in range(4):
    x = torch.randn(8, 4, generator=generator) * {scale}
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
{before}
model.eval()
if {evaluates}:
    with torch.no_grad():
        model(torch.ones(2, 4))
dist.barrier()
dist.destroy_process_group()
"""
APART = {
    "broadcasts": False, "seed": "rank", "scale": "(1 + rank)", "before": "", "evaluates": True,
}  # fmt: skip
HEALTHY = {
    "broadcast": {"broadcasts": True},
    "the same batches": {"seed": "7", "scale": "1"},
    "evaluated on the first": {"evaluates": "rank == 0"},
    "never evaluated": {"evaluates": False},
    "averaged before": {
        "before": "for each in net.buffers():\n    if each.dim():\n        dist.all_reduce(each)\n"
        "        each /= 2"
    },
    "loaded before": {"before": "net.load_state_dict(net.state_dict())"},
}
NOTED = ("evaluated on the first", "never evaluated", "averaged before", "loaded before")


def found(house: House, name: str) -> list[tuple[Severity, str, str]]:
    """What the rule finds: how serious it is, the message, and the line."""
    whole = merged([house.recorded(f"{name}.rank{rank}.json") for rank in range(2)])
    report = inspect(whole, rules=["GS026"])
    assert not report.faults
    return [(each.severity, each.message, each.site.text) for each in report.findings]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    changes = {"apart": {}, **HEALTHY}
    scripts = {kind: TRAINING.format(**APART | changed) for kind, changed in changes.items()}
    return trained(tmp_path_factory.mktemp("statistics"), scripts)


@pytest.mark.torch
def test_statistics_with_which_ranks_evaluate_are_named(house: House) -> None:
    [(severity, message, line)] = found(house, "apart")

    assert severity is Severity.WARNING
    assert "Running statistics of module.1 differ in step 3" in message
    assert "ranks 0, 1 evaluate with them" in message
    assert "broadcast_buffers=False" in line


@pytest.mark.torch
@pytest.mark.parametrize("kind", HEALTHY)
def test_statistics_that_are_not_used_on_several_ranks_are_a_note(house: House, kind: str) -> None:
    severities = [severity for severity, *_ in found(house, kind)]

    assert severities == ([Severity.NOTE] if kind in NOTED else [])
