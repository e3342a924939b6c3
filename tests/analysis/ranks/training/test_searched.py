"""Needless searches for unused parameters, in programs of two processes with gloo."""

from __future__ import annotations

import pytest

from gradscope.analysis.ranks.merging.merge import merged
from gradscope.analysis.report import inspect
from tests.analysis.ranks.test_training_rules import trained
from tests.record.running import House

TRAINING = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x, number):
        {forward}
        return self.second(x)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = DistributedDataParallel(Net(), find_unused_parameters=True{option})
    kept.append(model)  # of test_training_rules
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range({steps}):
        if step < 0:
            continue
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4), step).square().mean()
        {loss}
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__" or True:
    main()
"""
NEEDLESS = {"forward": "x = self.first(x)", "loss": "", "steps": 6, "option": ""}
HEALTHY = {
    "a step that leaves one out": {"forward": "x = self.first(x) if number != 3 else x"},
    "a branch": {"forward": "if number < 100: x = self.first(x)"},
    "a choice": {"forward": "x = self.first(x) if number < 100 else x"},
    "a return before": {
        "forward": "if number > 99: return self.first(x)\n        x = self.first(x)"
    },
    "a loss that may be added": {
        "loss": "if step < 100: loss = loss + model.module.first.weight.sum()"
    },
    "few steps": {"steps": 4},
    "a static graph": {"option": ", static_graph=True"},
}


def needless(house: House, name: str) -> list[str]:
    """The lines that the rule names."""
    whole = merged([house.recorded(f"{name}.rank{rank}.json") for rank in range(2)])
    report = inspect(whole, rules=["GS025"])
    assert not report.faults
    return [each.site.text for each in report.findings]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    changes = {"needless": {}, **HEALTHY}
    scripts = {kind: TRAINING.format(**NEEDLESS | changed) for kind, changed in changes.items()}
    return trained(tmp_path_factory.mktemp("searched"), scripts)


@pytest.mark.torch
def test_the_line_that_asks_for_the_search_is_named(house: House) -> None:
    [line] = needless(house, "needless")

    assert "find_unused_parameters=True" in line


@pytest.mark.torch
@pytest.mark.parametrize("kind", HEALTHY)
def test_nothing_is_said_if_a_later_step_may_leave_out_parameters(house: House, kind: str) -> None:
    assert needless(house, kind) == []
