"""The line with which `gradscope trace` ends counts as `inspect` does, and says what is left."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.record.running import House

ENGINES = pytest.mark.parametrize(
    "engine", ["gradscope", pytest.param("torch", marks=pytest.mark.torch)]
)
NAN_LOSSES = """\
import torch
w = torch.full((3,), 2.0, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.5)
for _ in range(12):
    optimizer.zero_grad()
    loss = (w ** 4).sum()
    loss.backward()
    optimizer.step()
print(loss.item())
"""
TWO_MISTAKES = """\
import torch
body, head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
kept = []
for _ in range(5):
    optimizer.zero_grad()
    loss = head(body(torch.ones(2, 4)).detach()).sum()
    loss.backward()
    optimizer.step()
    kept.append(loss)
"""


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def counted(house: House, engine: str, level: str) -> tuple[str, str]:
    """What `trace` says was found, and what `inspect` does."""
    traced = house.gradscope("trace", "--on", engine, "--level", level, "script.py")
    (held,) = re.findall(r"^gradscope: trace\.json: (.*)$", traced.err, re.MULTILINE)
    return held, house.gradscope("inspect", "trace.json").out


@ENGINES
def test_trace_and_inspect_count_alike(house: House, engine: str) -> None:
    house.write(TWO_MISTAKES)

    held, report = counted(house, engine, "engine")

    assert held.endswith("; 2 warnings")
    assert "rules checked, 2 warnings found" in report


@ENGINES
def test_losses_that_become_nan_do_not_end_in_nothing_found(house: House, engine: str) -> None:
    house.write(NAN_LOSSES)

    held, report = counted(house, engine, "engine")
    held_of_values, report_of_values = counted(house, engine, "values")

    assert held.endswith("; 1 error, 1 warning")
    assert "rules checked, 1 error, 1 warning found" in report
    said = " ".join(report.split())
    assert "not checked: values of results and gradients (NaN/Inf); use --level values (" in said
    assert "GS201" in report_of_values
    ((wrong, doubtful),) = re.findall(r"; (\d+) errors?, (\d+) warnings?", held_of_values)
    (errors, warnings) = re.findall(
        r"checked, (\d+) errors?, (\d+) warnings? found", report_of_values, re.MULTILINE
    )[0]
    assert (wrong, doubtful) == (errors, warnings)


def test_nothing_is_said_into_a_file_of_the_program(house: House) -> None:
    house.write("""
import os
for number in range(3):
    os.close(number)
files = [open(f"{number}.txt", "w") for number in range(3)]
for file in files:
    file.write(f"of the program, {file.fileno()}")
raise SystemExit(3)
""")

    traced = house.gradscope("trace", "script.py")

    assert (traced.code, traced.out, traced.err) == (3, "", "")
    for number in range(3):
        assert (house.folder / f"{number}.txt").read_text() == f"of the program, {number}"
    assert house.recorded().meta["exit_code"] == 3
