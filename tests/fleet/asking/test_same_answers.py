"""A fleet gives the answers that `inspect` gives of the same traces: of scripts of the zoo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradscope.analysis.findings import Finding
from gradscope.fleet.asking.answer import Asking
from gradscope.fleet.asking.folder import Asked, fleet_at
from gradscope.fleet.asking.question import question_called
from tests.shared.searching import SEARCHING
from tests.zoo.ranks.running import recorded
from tests.zoo.ranks.score import cases

CASES = {each.name: each for each in cases()}
FEW = {"no_sample_on_one_rank"}
"""What every run of the tests records; `make search` records all."""


def asked(folder: Path, name: str, question: str) -> list[dict[str, Any]]:
    """What a fleet of the traces of a script answers."""
    traces = sorted((folder / "buggy").glob("trace.rank*.json"))
    fleet = folder / "fleet"
    if not fleet.exists():
        exported(fleet, name, traces)
    found = question_called(question)
    return Asking(fleet_at(fleet, Asked()), found, dict(found.parameters)).answer().rows


def exported(fleet: Path, run: str, traces: list[Path]) -> None:
    from gradscope import cli

    with pytest.raises(SystemExit) as left:
        cli.main(["export", "--to", str(fleet), "--run", run, *map(str, traces)])
    assert left.value.code == 0


def findings(folder: Path, name: str, slug: str) -> list[Finding]:
    """What `inspect` finds in the traces of a script."""
    ranks = recorded(folder / "buggy", name, CASES[name].buggy)
    return [each for each in ranks.findings if each.slug == slug]


def case(name: str) -> pytest.MarkDecorator:
    recorded_here = SEARCHING or name in FEW
    return pytest.mark.torch if recorded_here else pytest.mark.skip("make search records it")


@pytest.mark.torch
@pytest.mark.search
@pytest.mark.slow
def test_the_first_nan_is_that_of_inspect(tmp_path: Path) -> None:
    name = "no_sample_on_one_rank"
    (finding,) = findings(tmp_path, name, "non-finite-birth")
    first = asked(tmp_path, name, "first-nan")[0]

    assert f"({first['line']})" in finding.message
    assert f"in step {first['step']}" in finding.message
    assert first["ranks"] == [0]
    assert "on rank 0" in finding.message
    assert asked(tmp_path, name, "collectives") == asked(tmp_path, name, "unused") == []
    assert asked(tmp_path, name, "drift") == asked(tmp_path, name, "disagree") == []


@case("checkpoint_loaded_on_rank_0")
@pytest.mark.search
def test_the_weight_that_differs_is_that_of_inspect(tmp_path: Path) -> None:
    name = "checkpoint_loaded_on_rank_0"
    (finding,) = findings(tmp_path, name, "replicas-differ")
    first = asked(tmp_path, name, "drift")[0]

    assert finding.message.startswith(f"Replicas differ from step {first['differs']} on: ")
    assert f"the norm of {first['parameter']} is" in finding.message
    assert f"{first['norm']:.4g} on rank 0, {first['odd_norm']:.4g} on rank 1" in finding.message


@case("biases_left_out_of_the_average")
@pytest.mark.search
def test_the_gradient_that_differs_is_that_of_inspect(tmp_path: Path) -> None:
    name = "biases_left_out_of_the_average"
    (finding,) = findings(tmp_path, name, "replicas-differ")
    first = asked(tmp_path, name, "disagree")[0]

    assert finding.message.startswith(f"Replicas differ from step {first['step']} on: ")
    assert f"the norm of the {first['what']} is" in finding.message


@case("barrier_in_the_branch_of_saving")
@pytest.mark.search
def test_the_collective_that_not_all_call_is_that_of_inspect(tmp_path: Path) -> None:
    name = "barrier_in_the_branch_of_saving"
    (finding,) = findings(tmp_path, name, "collectives-differ")
    rows = asked(tmp_path, name, "collectives")
    called = {tuple(row["ranks"]): row["what"] for row in rows if "no call" not in row["what"]}

    assert "rank 0 waits in barrier" in finding.message
    assert called[0,] == "barrier"
    assert "rank 1 waits in all_reduce" in finding.message
    assert called[1,].startswith("all_reduce")


@case("layer_dropped_by_each_rank")
@pytest.mark.search
def test_the_parameters_that_some_ranks_do_not_use_are_those_of_inspect(tmp_path: Path) -> None:
    name = "layer_dropped_by_each_rank"
    found = findings(tmp_path, name, "unused-on-some-ranks")
    rows = asked(tmp_path, name, "unused")

    assert found
    for finding in found:
        named = [row for row in rows if row["parameter"] in finding.message]
        assert named
        assert {tuple(row["ranks"]) for row in named} <= {(0,), (1,)}
        for row in named:
            assert f"got no gradient on rank {row['ranks'][0]} in step {row['step']}" in (
                finding.message
            )


@case("one_loader_is_slow")
@pytest.mark.search
def test_the_rank_that_others_wait_for_is_that_of_inspect(tmp_path: Path) -> None:
    name = "one_loader_is_slow"
    slower = CASES[name].buggy.replace("0.03", "0.3")  # so that a busy machine can tell
    ranks = recorded(tmp_path / "buggy", name, slower)
    (finding,) = [each for each in ranks.findings if each.slug == "slow-rank"]
    (row,) = asked(tmp_path, name, "stragglers")

    assert finding.message.startswith(f"Rank {row['rank']} began ")
    assert finding.site.place == row["line"]
    assert row["line_ns"] > 5 * row["line_others_ns"]
    assert row["late_ns"] > 0.9e9  # of 1.2 s
