"""Programs of other people's packages and of PyTorch's own parts end watched as they end alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.watched.program import Program, programs
from tests.watched.running import LEVELS, differences, run

CHOSEN = [each for each in programs() if each.small]
"""`make programs` runs the others."""

RANKS = {
    "averaged/teacher_on_the_first": "values",
    "divided/stages_by_hand": "full",
    "replicated/gathered_and_reduced_soundly": "values",
    "replicated/two_networks_play": "graph",
    "replicated/uneven_inputs": "engine",
}
"""Of the programs with ranks, those that run here, and at which level."""


def levels(program: Program) -> tuple[str, ...]:
    """All of them, or one, another for each program."""
    return (
        LEVELS
        if "every level" in program.comments
        else (LEVELS[CHOSEN.index(program) % len(LEVELS)],)
    )


@pytest.mark.torch
@pytest.mark.parametrize("program", CHOSEN, ids=lambda program: program.name)
def test_a_watched_program_ends_as_it_does_alone(program: Program, tmp_path: Path) -> None:
    alone = run(program, None, tmp_path / "alone")
    wrong = []
    for level in levels(program):
        watched = run(program, level, tmp_path / level)
        wrong += [f"at {level}: {line}" for line in differences(program, alone, watched)]
    if wrong and run(program, None, tmp_path / "again").ended != alone.ended:
        wrong.append("alone it does not end twice alike: mend the program")
    assert "\n".join(wrong) == ""


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("name", RANKS)
def test_ranks_end_as_they_do_alone_and_nothing_is_found(name: str, tmp_path: Path) -> None:
    [program] = [each for each in programs() if each.name == name]
    alone = run(program, None, tmp_path / "alone")
    watched = run(program, RANKS[name], tmp_path / "watched")

    assert {code for code, _, _ in alone.ended} == {0}
    assert len([*(tmp_path / "watched").glob("trace.rank*.json")]) == program.ranks
    assert "\n".join(differences(program, alone, watched)) == ""


def test_there_are_programs_enough() -> None:
    assert len(programs()) >= 100
    assert len([each for each in programs() if each.ranks > 1]) >= 50
    assert len([each for each in programs() if each.words("needs")]) >= 66
    assert len({word for each in programs() for word in each.words("needs")}) >= 20
