"""Programs drawn at random end as they end alone; python -m tests.watched.fuzz tries thousands."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shared.searching import SEARCHING, TIMES
from tests.watched.fuzz.harness import LEVELS, Difference, Harness, Server
from tests.watched.fuzz.programs import Program, drawn
from tests.watched.fuzz.shrinking import shrunk

FIRST = random.SystemRandom().randrange(10**6) if SEARCHING else 0
COUNT = 36 * TIMES


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    server = Server(tmp_path)
    harness = Harness(tmp_path / "work", server)
    yield harness
    harness.close()
    server.stop()


def test_every_piece_is_python_whatever_is_drawn() -> None:
    for seed in range(400):
        ast.parse(drawn(seed).text())

    assert drawn(7) == drawn(7) != drawn(8)


def test_the_smallest_part_that_fails_is_found() -> None:
    program = Program(0, tuple("abcdefghij"))

    part = shrunk(program, lambda shorter: {"c", "h"} <= set(shorter.blocks))

    assert part.blocks == ("c", "h")


@pytest.mark.torch
@pytest.mark.search
def test_programs_end_watched_as_they_end_alone(harness: Harness) -> None:
    """Exit code, both streams and all they print, at one level each; no fault, no broken trace."""
    changed: dict[str, list[Difference]] = {}
    for seed in range(FIRST, FIRST + COUNT):
        level = LEVELS[seed % len(LEVELS)]
        found = harness.differences(drawn(seed), (level,))
        if found and found[0].what != "unsteady":
            changed[f"python -m tests.watched.fuzz 1 --first {seed} --levels {level}"] = found

    assert changed == {}


@pytest.mark.torch
def test_a_program_that_a_recording_changes_is_noticed(harness: Harness) -> None:
    asking = "print(sys._getframe().f_back.f_code.co_name)"

    found = harness.differences(Program(0, (asking,)), ("graph",))

    assert [(each.level, each.what) for each in found] == [("graph", "out")]
