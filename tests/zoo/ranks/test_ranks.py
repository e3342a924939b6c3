"""`inspect` names bugs across ranks from the traces of all of them, and leaves the twins be."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.shared.searching import SEARCHING
from tests.zoo.case import Case
from tests.zoo.ranks.score import Named, cases, not_named, verdict

FEW = {"loss_of_the_bare_module", "mask_without_a_token", "bad_sample_is_skipped"}
"""Those that every run of the tests records; `make search` records all of them."""
EVERY = cases()


@pytest.mark.torch
@pytest.mark.search
@pytest.mark.parametrize(
    "case", [each for each in EVERY if SEARCHING or each.name in FEW], ids=lambda case: case.name
)
def test_the_bug_is_named_and_the_twin_is_not_blamed(case: Case, tmp_path: Path) -> None:
    found = verdict(case, tmp_path)

    assert not found.lame_twin, found.fixed.err
    assert found.false_alarms == []
    if case.name not in not_named():
        assert found.named in {Named.FIRST, Named.LATER}, found.buggy.findings


def test_every_case_is_two_scripts_and_has_a_name_of_its_own() -> None:
    names = {each.name for each in EVERY}

    assert len(names) == len(EVERY) >= 40
    assert names >= FEW
    assert names >= not_named()
    for each in EVERY:
        for script in (each.buggy, each.fixed):
            ast.parse(script)
            assert not any(mark in script for mark in ("# BUG", "# ALSO", "# FIX", "# ADD")), each
        assert each.buggy != each.fixed
