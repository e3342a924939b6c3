"""`inspect` and the exception texts name the zoo's bugs, and leave their twins be."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gradscope.analysis.rules import all_rules
from tests.zoo.case import case_of, cases, families
from tests.zoo.kinds import KINDS
from tests.zoo.score import LEVEL, NOT_YET, Named, healthy, verdict

EACH_FAMILY = pytest.mark.parametrize("family", families())


def not_named_yet(engine: str) -> set[str]:
    lines = (line.split() for line in NOT_YET.read_text(encoding="utf-8").splitlines())
    return {name for name, *engines in lines if engine in engines}


def asked(family: str, engine: str, folder: Path) -> tuple[list[str], list[str]]:
    """The cases of a family that ought to be named and are not; what is said against twins."""
    verdicts = [verdict(case, folder, on=engine) for case in cases(family)]
    excused = not_named_yet(engine)
    missed = [
        f"{each.case.name} is {each.named}: {each.said}"
        for each in verdicts
        if each.named is not Named.BOTH and each.case.name not in excused
    ]
    return missed, [alarm for each in verdicts for alarm in each.false_alarms]


@EACH_FAMILY
def test_the_bugs_are_named_and_the_twins_are_not_blamed(family: str, tmp_path: Path) -> None:
    assert asked(family, "gradscope", tmp_path) == ([], [])


@pytest.mark.torch
@EACH_FAMILY
def test_on_pytorch_as_well(family: str, tmp_path: Path) -> None:
    assert asked(family, "torch", tmp_path) == ([], [])


AT_ENGINE: dict[str, set[str]] = {"births_backward": {"two_penalties_meet"}, "signal": set()}
"""Of these only level `values` has the line and the kind."""


@pytest.mark.parametrize("family", AT_ENGINE)
def test_at_level_engine_what_optimizers_found_names_them_too(family: str, tmp_path: Path) -> None:
    found = [verdict(case, tmp_path, on="gradscope", level="engine") for case in cases(family)]
    assert {each.case.name for each in found if each.named is not Named.BOTH} == AT_ENGINE[family]
    assert [alarm for each in found for alarm in each.false_alarms] == []


@pytest.mark.torch
def test_at_level_engine_data_that_nodes_keep_is_an_operand(tmp_path: Path) -> None:
    pairs = [case for case in cases("structure_shape") if case.kind == "broadcast"]
    found = [verdict(case, tmp_path, on="torch", level="engine") for case in pairs]
    assert [each.case.name for each in found if each.named is not Named.BOTH] == []


HERE = Path(__file__).parents[2]
SOUND = [
    *(HERE / "tests/programs/ordinary").glob("[a-z]*.py"),
    *(path for path in (HERE / "tests/zoo/sound").glob("[a-z]*/")),
    HERE / "docs/engine",
]
EACH_FOLDER = pytest.mark.parametrize("folder", sorted(SOUND), ids=lambda path: path.stem)


def blamed(folder: Path, engine: str, into: Path) -> list[str]:
    *alarms, count = healthy([folder], into, on=engine, level=LEVEL)
    assert int(count.split()[0]) >= 7
    return alarms


@EACH_FOLDER
def test_nothing_is_said_against_sound_programs(folder: Path, tmp_path: Path) -> None:
    assert blamed(folder, "gradscope", tmp_path) == []


@pytest.mark.torch
@EACH_FOLDER
def test_nothing_is_said_against_them_on_pytorch(folder: Path, tmp_path: Path) -> None:
    assert blamed(folder, "torch", tmp_path) == []


def test_every_case_is_two_scripts_that_show_no_mark() -> None:
    every = cases()
    assert len({each.name for each in every}) == len(every)
    for each in every:
        assert each.kind in KINDS
        for script in (each.buggy, each.fixed):
            ast.parse(script)
            assert not any(mark in script for mark in ("# BUG", "# ALSO", "# FIX", "# ADD")), each
        lines = each.buggy.splitlines()
        assert all(lines[line - 1].strip() for line in each.lines)
        assert each.buggy != each.fixed


def test_a_case_says_what_its_scripts_are(tmp_path: Path) -> None:
    path = tmp_path / "small.py"
    path.write_text(
        "for x in y:\n"
        "    a = x  # BUG wrong-dim\n"
        "    # FIX a = x + 1\n"
        "    # FIX if a:\n"
        "    # FIX     b()\n"
        "    c = a  # ALSO\n"
        "    # ADD d = c\n"
        "    e(c)\n"
        "    # FIX\n",
        encoding="utf-8",
    )

    case = case_of(path)

    assert (case.kind, case.lines) == ("wrong-dim", {2, 6})
    assert case.buggy == "for x in y:\n    a = x\n\n\n\n    c = a\n\n    e(c)\n\n"
    assert case.fixed == (
        "for x in y:\n    a = x + 1\n    if a:\n        b()\n    c = a\n    d = c\n"
    )


def test_the_tables_name_only_what_there_is() -> None:
    slugs = {rule.slug for rule in all_rules()}
    names = {each.name for each in cases()}

    assert {slug for kind in KINDS.values() for slug in kind.slugs} <= slugs
    assert not_named_yet("torch") | not_named_yet("gradscope") <= names
