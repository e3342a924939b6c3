"""Nothing fails on a system that lacks what Linux has."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradscope.record.recording import LEVELS
from gradscope.trace.schema import GraphTask, Node
from tests.record.running import House

SYSTEM = str(Path(__file__).with_name("other_system.py"))
SYSTEMS = [("win32", "AMD64"), ("darwin", "arm64")]
PROGRAM = """
import torch
layer = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    loss = layer(torch.ones(4, 3)).square().sum()
    loss.backward()
    optimizer.step()
print(f"{loss.item() > 0}")
"""


def told(
    tmp_path: Path,
    system: tuple[str, str],
    on: str,
    *shows: tuple[str, ...],
    level: str = "values",
) -> House:
    """Record the program as if on this system, and run commands on the trace."""
    house = House(tmp_path)
    house.write(PROGRAM)
    pytorch = "torch" if on == "torch" else "-"
    ran = house.python(SYSTEM, *system, pytorch, "trace", "--on", on, "--level", level,
                       "-o", "trace.json", "script.py")  # fmt: skip
    assert (ran.code, ran.out) == (0, "True\n"), ran.err
    assert "fault" not in ran.err
    for command in shows:
        shown = house.python(SYSTEM, *system, "-", *command)
        assert shown.code == 0, shown.err
    return house


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_own_engine_is_recorded_and_shown_on_another_system(
    system: tuple[str, str], tmp_path: Path
) -> None:
    shows = (
        ("inspect", "trace.json"),
        ("render", "trace.json", "-o", "trace.svg"),
        ("view", "trace.json", "-o", "page.html", "--no-open"),
    )
    house = told(tmp_path, system, "gradscope", *shows)

    assert house.violations() == []
    assert (tmp_path / "trace.svg").stat().st_size > 1000


@pytest.mark.torch
@pytest.mark.parametrize(
    ("system", "level"),
    [(SYSTEMS[1], "values"), *((SYSTEMS[0], each) for each in LEVELS)],
)
def test_pytorch_is_recorded_through_its_public_hooks(
    system: tuple[str, str], level: str, tmp_path: Path
) -> None:
    house = told(tmp_path, system, "torch", ("inspect", "trace.json"), level=level)

    trace = house.recorded()
    assert house.violations() == []
    assert len(trace.table(GraphTask)) == 2
    assert "machine code" in trace.meta["no_machine_code"]
    assert {node.name for node in trace.rows(Node)} == {
        "AccumulateGrad", "AddmmBackward0", "PowBackward0", "SumBackward0", "TBackward0",
    }  # fmt: skip
