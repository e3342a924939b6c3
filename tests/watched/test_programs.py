"""Programs of other people's packages and of PyTorch's own parts end watched as they end alone."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest

from tests.watched.program import Program, programs
from tests.watched.running import LEVELS, Outcome, run

TABLE = os.environ.get("GRADSCOPE_PROGRAMS")
"""Where `make programs` wants times and memory; without it, only small programs run."""

CHOSEN = [each for each in programs() if each.installed and (TABLE or each.small)]


def levels(program: Program) -> tuple[str, ...]:
    """All of them, or one, another for each program."""
    return LEVELS if TABLE else (LEVELS[CHOSEN.index(program) % len(LEVELS)],)


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


def differences(program: Program, alone: Outcome, watched: Outcome) -> list[str]:
    lines: list[str] = []
    for (code, *texts), (other_code, *other_texts) in zip(alone.ended, watched.ended, strict=True):
        if code != other_code:
            lines.append(f"exit code {other_code}, alone {code}")
        for stream, text, other in zip(("stdout", "stderr"), texts, other_texts, strict=True):
            pair = text.splitlines(), other.splitlines()
            changed = difflib.unified_diff(*pair, "alone", "watched", lineterm="", n=0)
            lines += [f"{stream} {line}" for line in changed]
    lines += [f"said: {line}" for line in watched.said if "fault" in line]
    lines += [
        f"found: {each}" for each in watched.found if each.split()[0] not in program.true_findings
    ]
    return lines


def write_row(program: Program, level: str, outcome: Outcome) -> None:
    if not TABLE:
        return
    codes = ",".join(str(code) for code, _, _ in outcome.ended)
    numbers = f"{outcome.seconds:.1f}\t{outcome.cpu_seconds:.1f}\t{outcome.megabytes}"
    with Path(TABLE).open("a", encoding="utf-8") as table:
        table.write(f"{program.name}\t{level}\t{codes}\t{numbers}\t{len(outcome.found)}\n")


def test_there_are_programs_enough() -> None:
    assert len(programs()) >= 60
    assert len({word for each in programs() for word in each.words("needs")}) >= 20
