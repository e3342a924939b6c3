"""Programs of other people's packages and of PyTorch's own parts end watched as they end alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.watched.program import Program, programs
from tests.watched.running import LEVELS, Outcome, differences, run

TABLE = os.environ.get("GRADSCOPE_PROGRAMS")
"""Where `make programs` wants times and memory; without it, only small programs run."""

CHOSEN = [each for each in programs() if each.installed and (TABLE or each.small)]


def levels(program: Program) -> tuple[str, ...]:
    """All of them, or one, another for each program."""
    return (
        LEVELS
        if TABLE or "every level" in program.comments
        else (LEVELS[CHOSEN.index(program) % len(LEVELS)],)
    )


@pytest.mark.torch
@pytest.mark.parametrize("program", CHOSEN, ids=lambda program: program.name)
def test_a_watched_program_ends_as_it_does_alone(program: Program, tmp_path: Path) -> None:
    alone = run(program, None, tmp_path / "alone")
    write_row(program, "alone", alone)
    wrong = []
    for level in levels(program):
        watched = run(program, level, tmp_path / level)
        write_row(program, level, watched)
        wrong += [f"at {level}: {line}" for line in differences(program, alone, watched)]
    if wrong and run(program, None, tmp_path / "again").ended != alone.ended:
        wrong.append("alone it does not end twice alike: mend the program")
    assert "\n".join(wrong) == ""


def write_row(program: Program, level: str, outcome: Outcome) -> None:
    if not TABLE:
        return
    codes = ",".join(str(code) for code, _, _ in outcome.ended)
    numbers = f"{outcome.seconds:.1f}\t{outcome.cpu_seconds:.1f}\t{outcome.megabytes}"
    with Path(TABLE).open("a", encoding="utf-8") as table:
        table.write(f"{program.name}\t{level}\t{codes}\t{numbers}\t{len(outcome.found)}\n")


def test_there_are_programs_enough() -> None:
    assert len(programs()) >= 60
    assert len([each for each in programs() if each.words("needs")]) >= 66
    assert len({word for each in programs() for word in each.words("needs")}) >= 20
