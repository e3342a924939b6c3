"""Nothing fails on a system that lacks what Linux has."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradscope.trace.schema import GraphTask
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


def told(tmp_path: Path, system: tuple[str, str], on: str, *shows: tuple[str, ...]) -> House:
    """Record the program as if on this system, and run commands on the trace."""
    house = House(tmp_path)
    house.write(PROGRAM)
    pytorch = "torch" if on == "torch" else "-"
    ran = house.python(SYSTEM, *system, pytorch, "trace", "--on", on, "--level", "values",
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
def test_pytorch_is_recorded_through_its_public_hooks_on_macos(tmp_path: Path) -> None:
    """For Windows, see tests/record/script/test_windows.py."""
    house = told(tmp_path, ("darwin", "arm64"), "torch", ("inspect", "trace.json"))

    assert house.violations() == []
    assert len(house.recorded().table(GraphTask)) == 2
