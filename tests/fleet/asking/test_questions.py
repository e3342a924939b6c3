"""Each question finds what was planted, says so if there is nothing, and if it was not recorded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gradscope.errors import UnknownNameError, UsageError
from gradscope.fleet.asking import answer as answering
from gradscope.fleet.asking.answer import Asking, FleetAnswer
from gradscope.fleet.asking.engine import PartWork
from gradscope.fleet.asking.folder import Asked, fleet_at
from gradscope.fleet.asking.question import question_called, questions, read_question
from gradscope.fleet.places import MANIFEST
from tests.fleet.planted import Planted, line_of, write

FAULTS = Planted(
    ranks=4, steps=60, steps_per_file=16, nan=(1, 50, 1), slow=(2, 3.0), drift=(3, 20, 1),
    own_gradient=(0, 30, 2), odd=(2, 57), spike=40, unused=(1, 2),
)  # fmt: skip
LATER = Planted(run="later", seed=5, steps=60, slower_line=1.4, finding="GS999")
SOUND = Planted(run="sound", steps=20)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fleet")
    for planted in (FAULTS, LATER):
        write(root, planted)
    return root


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sound")
    write(root, SOUND)
    return root


def ask(
    root: Path, name: str, many: int = 0, *, asked: Asked | None = None, **given: str
) -> FleetAnswer:
    question = question_called(name)
    parameters = question.with_parameters(given)
    return Asking(fleet_at(root, asked or Asked()), question, parameters, many=many).answer()


def rows(answer: FleetAnswer, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in answer.rows]


def test_the_first_nan_is_that_of_the_rank_and_line_where_it_came_up(fleet: Path) -> None:
    answer = ask(fleet, "first-nan")

    assert rows(answer, "run", "step", "operation", "where", "ranks", "line_hash", "line") == [
        ("base", 50, "addmm", "layers.1", [1], line_of(1), "train.py:11"),
        ("base", 50, None, None, [0, 2, 3], None, None),  # their gradients, in the same step
    ]
    assert answer.next == "gradscope view --step 50 base.rank1.json"


def test_the_first_nan_is_the_same_without_what_exports_have_listed(
    fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = ask(fleet, "first-nan").rows
    shutil.copytree(fleet, tmp_path / "fleet")
    for path in (tmp_path / "fleet" / MANIFEST).rglob("*.json"):
        facts = json.loads(path.read_text(encoding="utf-8"))
        for each in facts["parts"]:
            for file in each["files"].values():
                del file["first_bad"]
        path.write_text(json.dumps(facts), encoding="utf-8")

    assert ask(tmp_path / "fleet", "first-nan").rows == listed
    assert ask(tmp_path / "fleet", "first-nan", nan_only="1").rows == listed
    monkeypatch.setattr(answering, "run_part", not_asked)
    with pytest.raises(AssertionError, match="4 files of value"):  # and those of rank 1 alone
        ask(fleet, "first-nan")


def not_asked(work: PartWork) -> bytes:
    raise AssertionError(f"{len(work.files['value'])} files of value")


def test_a_weight_that_drifts_is_named_with_its_odd_rank(fleet: Path) -> None:
    answer = ask(fleet, "drift")

    assert rows(answer, "run", "differs", "last_equal", "parameter", "odd", "others") == [
        ("base", 20, 19, "layers.1.weight", [3], [0, 1, 2])
    ]
    assert answer.rows[0]["odd_norm"] - answer.rows[0]["norm"] == pytest.approx(0.25)


def test_a_gradient_of_its_own_is_the_first_disagreement(fleet: Path) -> None:
    assert rows(ask(fleet, "disagree"), "run", "step", "what", "odd") == [
        ("base", 30, "gradient of layers.2.weight", [0])
    ]


def test_the_slow_rank_is_named_with_the_line_at_which_it_is_slow(fleet: Path) -> None:
    (row,) = ask(fleet, "stragglers").rows

    assert (row["run"], row["rank"], row["steps"], row["line_hash"]) == ("base", 2, 59, line_of(0))
    assert row["line_ns"] > 2.5 * row["line_others_ns"]


def test_a_slow_rank_of_two_is_late_by_all_that_the_other_waits(tmp_path: Path) -> None:
    write(tmp_path, Planted(ranks=2, steps=12, slow=(1, 3.0)))
    (row,) = ask(tmp_path, "stragglers").rows

    late = pytest.approx(2_000_000, rel=1e-3)
    assert (row["rank"], row["late_ns"], row["lost_ns"] / 11) == (1, late, late)


def test_a_jump_of_the_loss_is_named_with_its_rank_and_parameter(fleet: Path) -> None:
    found = {row["what"]: row for row in ask(fleet, "spikes").rows}

    assert {(row["run"], row["step"]) for row in found.values()} == {("base", 40)}
    assert (found["loss"]["rank"], found["loss"]["parameter"]) == (3, "layers.2.weight")
    assert found["loss"]["now"] > 10 * found["loss"]["before"]
    assert len(found["loss"]["around"]) == 7
    assert found["gradient norm"]["parameter"] == "layers.2.weight"


def test_the_samples_before_a_jump_are_those_of_the_rank_with_the_largest_loss(fleet: Path) -> None:
    answer = ask(fleet, "data")

    assert rows(answer, "spike", "rank", "step", "samples") == [
        (40, 3, 40, "[163]"), (40, 3, 39, "[159]"), (40, 3, 38, "[155]"),
    ]  # fmt: skip
    assert rows(ask(fleet, "data", back="0"), "step") == [(40,)]


def test_a_parameter_without_gradient_is_named_with_its_rank(fleet: Path) -> None:
    assert rows(ask(fleet, "unused"), "run", "parameter", "where", "step", "steps", "ranks") == [
        ("base", "layers.2.weight", "some ranks", 0, 60, [1])
    ]


def test_the_first_collective_that_differs_is_shown_with_both_sides(fleet: Path) -> None:
    answer = ask(fleet, "collectives")

    assert rows(answer, "run", "call", "what", "ranks", "step") == [
        ("base", 115, "broadcast of [64] float32", [2], 57),
        ("base", 115, "all_reduce of [64] float32", [0, 1, 3], 57),
    ]
    assert answer.next == "gradscope timeline --step 57 base.rank2.json"


def test_ranks_that_never_call_a_collective_are_named(tmp_path: Path) -> None:
    write(tmp_path, Planted(ranks=3, steps=5))
    short = tmp_path / "short"
    write(short, Planted(ranks=3, steps=4))
    for table in ("collective",):
        folder = Path(table) / "run=base" / "rank=1"
        (short / folder / "part-00000000.parquet").replace(
            tmp_path / folder / "part-00000000.parquet"
        )

    assert rows(ask(tmp_path, "collectives"), "call", "what", "ranks") == [
        (8, "no call, the last was all_reduce", [1]),
        (8, "all_reduce of [64] float32", [0, 2]),
    ]


def test_memory_at_its_highest_is_shared_out_by_line(fleet: Path) -> None:
    found = [row for row in ask(fleet, "memory").rows if row["run"] == "base"]

    assert [(row["line_hash"], row["held_bytes"]) for row in found] == [
        (line_of(2), 3 << 20), (line_of(1), 2 << 20), (line_of(0), 1 << 20),
    ]  # fmt: skip
    assert {row["peak_bytes"] for row in found} == {6 << 20}


def test_the_hottest_line_comes_first_with_a_row_for_each_run(fleet: Path) -> None:
    answer = ask(fleet, "hot-lines")
    found = answer.rows

    assert answer.next == "gradscope inspect base.rank0.json"
    assert found[0]["ranks"] == [0, 1, 2, 3]
    assert [(row["run"], row["line_hash"]) for row in found[:2]] == [
        ("base", line_of(0)), ("later", line_of(0)),
    ]  # fmt: skip
    assert sum(row["share"] for row in found if row["run"] == "later") == pytest.approx(1.0)


def test_a_slower_line_is_a_regression_of_the_later_run(fleet: Path) -> None:
    sound = ask(fleet, "regressions", asked=Asked(ranks=(0, 1)))
    (row,) = [row for row in sound.rows if row["what"] == "line"]

    assert (row["run_before"], row["run_after"], row["line_hash"]) == ("base", "later", line_of(0))
    assert row["change"] == pytest.approx(1.4, rel=0.02)
    back = ask(fleet, "regressions", before="later", after="base", asked=Asked(ranks=(0, 1)))
    assert [each["change"] < 1 for each in back.rows if each["what"] == "line"] == [True]


def test_a_finding_that_earlier_runs_do_not_have_is_new(fleet: Path) -> None:
    answer = ask(fleet, "new-findings")

    assert rows(answer, "run", "rule", "ranks", "line_hash") == [
        ("later", "GS999", [0], line_of(0))
    ]
    assert ask(fleet, "new-findings", since="base").rows == answer.rows


@pytest.mark.parametrize("name", sorted(questions()))
def test_parts_give_the_same_answer_as_the_whole(fleet: Path, name: str) -> None:
    whole = ask(fleet, name)

    assert whole.rows
    for many in (2, 5):
        parts = ask(fleet, name, many)
        assert len(parts.rows) == len(whole.rows)
        for one, other in zip(parts.rows, whole.rows, strict=True):
            assert _alike(one, other), (one, other)


def _alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether rows differ by rounding only: sums of parts are added in another order."""
    return one.keys() == other.keys() and all(
        value == pytest.approx(other[name], rel=1e-9, abs=1e-6)
        if isinstance(value, float) or name == "around"
        else value == other[name]
        for name, value in one.items()
    )


FINDS_IN_ANY_RUN = {"hot-lines", "memory"}
"""Questions that have an answer in a sound run."""


@pytest.mark.parametrize("name", sorted(questions().keys() - FINDS_IN_ANY_RUN))
def test_a_sound_run_has_nothing_and_says_so(sound: Path, name: str) -> None:
    answer = ask(sound, name)

    assert (answer.rows, answer.next) == ([], "")
    assert len(answer.notes) == 1
    expected = "not recorded: a second run" if name == "regressions" else questions()[name].empty
    assert answer.notes[0].startswith(expected)


@pytest.mark.parametrize("name", ["first-nan", "spikes", "data"])
def test_what_level_engine_does_not_record_is_not_recorded(tmp_path: Path, name: str) -> None:
    write(tmp_path, Planted(values=False, steps=8))
    if name == "spikes":
        for path in tmp_path.glob("grad/*/*/*.parquet"):
            path.unlink()
        for path in (tmp_path / "_manifest").rglob("*.json"):
            path.unlink()
        (tmp_path / "_manifest" / "run=base").rmdir()
        (tmp_path / "_manifest").rmdir()

    answer = ask(tmp_path, name)

    assert answer.rows == []
    assert answer.notes[0].startswith("not recorded: ")
    assert "--level values" in answer.notes[0]


def test_ranks_without_values_are_named_while_others_have_them(tmp_path: Path) -> None:
    write(tmp_path, Planted(ranks=3, steps=8, nan=(0, 5, 1)))
    write(tmp_path / "bare", Planted(ranks=3, steps=8, values=False))
    for manifest in (tmp_path / "_manifest").rglob("rank=2.json"):
        manifest.write_bytes((tmp_path / "bare" / manifest.relative_to(tmp_path)).read_bytes())
    for path in (tmp_path / "grad").rglob("rank=2"):
        (tmp_path / "bare" / path.relative_to(tmp_path) / "part-00000000.parquet").replace(
            path / "part-00000000.parquet"
        )

    answer = ask(tmp_path, "first-nan")

    assert answer.rows[0]["ranks"] == [0]
    assert answer.notes == (
        "not recorded: values of tensors of rank 2 of run base; record with --level values",
    )


def test_only_the_run_rank_and_steps_that_are_asked_for_count(fleet: Path) -> None:
    assert ask(fleet, "first-nan", asked=Asked(runs=("later",))).rows == []
    assert ask(fleet, "first-nan", asked=Asked(steps=(0, 50))).rows == []
    alone = ask(fleet, "first-nan", asked=Asked(ranks=(0,)))
    assert rows(alone, "step", "place", "ranks") == [(50, "grad", [0])]
    assert alone.notes[1] == (
        "rank 1 of run base had NaN or Inf in step 50, before: ask about all of it"
    )
    after = ask(fleet, "first-nan", asked=Asked(ranks=(1,), steps=(55, 60)))
    assert after.notes[1] == alone.notes[1]
    assert len(ask(fleet, "first-nan", asked=Asked(ranks=(1,))).notes) == 1


def test_a_run_that_is_not_there_is_named_with_the_nearest(fleet: Path) -> None:
    with pytest.raises(UnknownNameError, match="no run 'latr'; did you mean later"):
        fleet_at(fleet, Asked(runs=("latr",)))


def test_an_unknown_question_or_parameter_is_explained() -> None:
    with pytest.raises(UnknownNameError, match="did you mean first-nan"):
        question_called("firstnan")
    with pytest.raises(UsageError, match="drift has no parameter 'mny'; it has: many"):
        question_called("drift").with_parameters({"mny": "3"})
    with pytest.raises(UsageError, match="--set many takes a whole number, not 'x'"):
        question_called("drift").with_parameters({"many": "x"})


def test_a_question_is_one_file(sound: Path, tmp_path: Path) -> None:
    path = tmp_path / "slow-steps.toml"
    path.write_text(
        """
title = "the slowest steps"
reads = ["step"]
[[stage]]
part = "SELECT run, rank, step, duration_ns FROM step ORDER BY duration_ns DESC LIMIT 3"
sum = "SELECT * FROM parts ORDER BY duration_ns DESC LIMIT 3"
""",
        encoding="utf-8",
    )

    found = ask(sound, str(path), 3).rows
    assert len(found) == 3
    assert found[0]["duration_ns"] >= found[2]["duration_ns"] > 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("title = ", "is not TOML"),
        ("title = 'x'\nreads = ['step']", "it lacks 'stage'"),
        ("title = 'x'\nreads = []\n[[stage]]\npart = ''\nsum = ''\nsplit = 'x'", "split is 'x'"),
        ("title = 'x'\nreads = []\n[[stage]]\npart = ''\nsum = ''\nmore = 1", "is no question"),
    ],
)
def test_a_file_that_is_no_question_is_explained(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "broken.toml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(UsageError, match=words):
        read_question(path)


@pytest.mark.parametrize("name", sorted(questions()))
def test_a_question_has_words_for_people(name: str) -> None:
    question = questions()[name]

    assert 20 <= len(question.title) <= 80
    assert question.words
    assert question.next
    assert question.plot is not None


@pytest.mark.parametrize("name", ["drift", "disagree", "collectives", "stragglers"])
def test_one_rank_is_not_compared_with_itself(fleet: Path, name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} compares ranks, so one rank has no answer"):
        ask(fleet, name, asked=Asked(ranks=(3,)))


def test_an_answer_about_a_part_says_of_which(fleet: Path) -> None:
    part = ask(fleet, "drift", asked=Asked(ranks=(0, 1), steps=(2, 5)))

    assert "asked about ranks 0, 1 and steps 2 to 4 only" in part.notes
    assert "asked about step 1 only" in ask(fleet, "memory", asked=Asked(steps=(1, 2))).notes
    assert not any("asked about" in each for each in ask(fleet, "memory").notes)
