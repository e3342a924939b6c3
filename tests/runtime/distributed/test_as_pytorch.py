"""The same scripts as two ranks: over MPI on gradscope's runtime, and with gloo on PyTorch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.record.running import House, needs_mpi
from tests.shared.forked_starts import GRADSCOPE

PROGRAMS = Path(__file__).parents[1] / "programs" / "ranks"
NUMBER = re.compile(r"-?\d+\.\d+")

pytestmark = [pytest.mark.torch, pytest.mark.slow, needs_mpi]


def said_by_both(house: House, name: str) -> tuple[list[str], list[str]]:
    """The sorted lines that two ranks print, on the runtime and on PyTorch."""
    house.write((PROGRAMS / name).read_text("utf-8"))
    ours = house.run_by_mpi(2, "script.py")
    assert ours.code == 0, ours.err
    command = (GRADSCOPE, "trace", "-q", "--on", "torch", "script.py")
    theirs = house.run_as_ranks(2, *command)
    assert [each.code for each in theirs] == [0, 0], theirs[0].err
    lines = [line for each in theirs for line in each.out.splitlines()]
    return sorted(ours.out.splitlines()), sorted(lines)


def test_each_collective_gives_what_it_gives_on_pytorch(house: House) -> None:
    ours, theirs = said_by_both(house, "collectives.py")

    assert ours == theirs


def test_data_parallel_training_has_the_numbers_of_pytorch(house: House) -> None:
    ours, theirs = said_by_both(house, "data_parallel.py")

    assert [NUMBER.sub("", line) for line in ours] == [NUMBER.sub("", line) for line in theirs]
    for one, other in zip(ours, theirs, strict=True):
        numbers = [[float(found) for found in NUMBER.findall(line)] for line in (one, other)]
        assert numbers[0] == pytest.approx(numbers[1], rel=2e-5, abs=2e-5), one
