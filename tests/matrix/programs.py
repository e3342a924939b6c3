"""The programs that every cell records."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.programs.language import Program, programs
from tests.programs.ordinary import ROOMS, programs_of


def ordinary() -> dict[str, Callable[[Any], None]]:
    """The programs of tests/programs/ordinary by name."""
    return {each.__name__: each for room in ROOMS for each in programs_of(room)}


def draw(count: int, start: int, file: Path) -> None:
    """Draw random programs, always the same for a start, into a file."""
    drawn: list[Program] = []

    @seed(start)
    @settings(
        max_examples=count, database=None, phases=[Phase.generate], deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(programs())
    def keep(program: Program) -> None:
        drawn.append(program)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        keep()
    file.write_bytes(pickle.dumps(drawn[:count]))


def random_programs(file: Path) -> list[Program]:
    """The drawn programs."""
    drawn: list[Program] = pickle.loads(file.read_bytes())
    return drawn
