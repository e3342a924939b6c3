"""Adding traces to a fleet: again, further, in the place of others, and what cannot be added."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gradscope.errors import UnreadableTraceError, UsageError
from gradscope.fleet.manifest import manifests
from gradscope.trace.load_save import load, save
from gradscope.trace.schema import GraphTask
from tests.analysis.ranks.several_ranks import several_ranks
from tests.fleet.growing import windows, without, written
from tests.fleet.reading import everything, files, rows

exporter = pytest.importorskip("gradscope.fleet.export.exporter")
Exporter, ExportOptions = exporter.Exporter, exporter.ExportOptions
WITHOUT = ExportOptions(findings=False)


def test_the_same_trace_again_adds_nothing(tmp_path: Path) -> None:
    trace, fleet = written(tmp_path / "trace.json", steps=3), tmp_path / "fleet"
    first = Exporter(fleet, "a", ExportOptions()).add(trace)
    before = files(fleet)

    again = Exporter(fleet, "a", ExportOptions()).add(trace)

    assert (first.rank, first.steps, first.rows > 0, first.bytes > 0) == (0, 3, True, True)
    assert (again.rank, again.steps, again.rows, again.bytes) == (0, 0, 0, 0)
    assert files(fleet) == before


def test_two_exports_of_one_trace_have_the_same_bytes(tmp_path: Path) -> None:
    trace = written(tmp_path / "trace.json", steps=3)

    for name in ("one", "two"):
        Exporter(tmp_path / name, "a", ExportOptions()).add(trace)

    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_a_copy_of_the_trace_under_another_name_adds_no_steps(tmp_path: Path) -> None:
    trace, fleet = written(tmp_path / "trace.json", steps=2), tmp_path / "fleet"
    Exporter(fleet, "a", WITHOUT).add(trace)

    again = Exporter(fleet, "a", WITHOUT).add(trace.rename(tmp_path / "copy.json"))

    assert (again.steps, again.rows) == (0, 0)


def test_a_trace_that_grows_is_taken_further(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole.json", steps=6).read_bytes()
    trace, fleet = tmp_path / "trace.json", tmp_path / "fleet"
    cuts = sorted({*windows(whole)[1:], *random.Random(7).sample(range(2_000, len(whole)), 8)})

    for cut in [*cuts, len(whole)]:
        trace.write_bytes(whole[:cut])
        added = Exporter(fleet, "a", WITHOUT).add(trace)
        ended = {row["step"] for row in rows(fleet, "step")}
        assert all(row["finished"] for row in rows(fleet, "step"))
        for table in ("op", "node", "event"):
            assert {row["step"] for row in rows(fleet, table)} <= ended | {None}
        assert not set(added.running) & ended

    Exporter(tmp_path / "fresh", "a", WITHOUT).add(trace)
    assert everything(fleet) == everything(tmp_path / "fresh")
    assert len(list((fleet / "op" / "run=a" / "rank=0").iterdir())) > 3


def test_a_continued_export_leaves_files_of_earlier_steps_alone(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole.json", steps=6).read_bytes()
    trace, fleet = tmp_path / "trace.json", tmp_path / "fleet"
    trace.write_bytes(whole[: windows(whole)[3]])
    first = Exporter(fleet, "a", WITHOUT).add(trace)
    path = fleet / "event" / "run=a" / "rank=0" / "part-00000000.parquet"
    before = path.stat()

    trace.write_bytes(whole)
    more = Exporter(fleet, "a", WITHOUT).add(trace)

    assert (first.steps + more.steps, more.steps > 0) == (6, True)
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


def test_the_last_step_of_a_killed_program_is_added_if_asked_for(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole.json", steps=4).read_bytes()
    trace, fleet = tmp_path / "trace.json", tmp_path / "fleet"
    lines = whole[: windows(whole)[-1]].splitlines(keepends=True)
    trace.write_bytes(b"".join(lines[:-2]))  # without the end of the last step

    added = Exporter(fleet, "a", WITHOUT).add(trace)
    assert (added.running, {row["step"] for row in rows(fleet, "step")}) == ((3,), {0, 1, 2})

    Exporter(fleet, "a", ExportOptions(findings=False, unfinished=True)).add(trace)
    found = {row["step"]: row["finished"] for row in rows(fleet, "step")}
    assert found == {0: True, 1: True, 2: True, 3: False}
    again = Exporter(fleet, "a", WITHOUT).add(trace)
    assert again.rows == 0


def test_another_recording_under_the_same_name_is_refused(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet"
    Exporter(fleet, "a", WITHOUT).add(written(tmp_path / "one.json", steps=2))
    before, other = files(fleet), written(tmp_path / "two.json", steps=3, pid=2)

    with pytest.raises(UsageError, match=r"'.*two\.json' is another recording of rank 0 .*--run"):
        Exporter(fleet, "a", WITHOUT).add(other)
    assert files(fleet) == before

    Exporter(fleet, "a", ExportOptions(findings=False, replace=True)).add(other)
    Exporter(tmp_path / "fresh", "a", WITHOUT).add(other)
    assert files(fleet) == files(tmp_path / "fresh")


def test_a_shorter_copy_of_the_trace_is_refused(tmp_path: Path) -> None:
    trace, fleet = written(tmp_path / "trace.json", steps=4), tmp_path / "fleet"
    whole = trace.read_bytes()
    Exporter(fleet, "a", WITHOUT).add(trace)
    before = everything(fleet)

    trace.write_bytes(whole[: windows(whole)[2]])
    with pytest.raises(UsageError, match="lacks steps that run a has of rank 0"):
        Exporter(fleet, "a", WITHOUT).add(trace)

    assert everything(fleet) == before


def test_ranks_and_runs_are_apart(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet"
    for run in ("a", "b"):
        for rank in range(2):
            name = tmp_path / f"{run}.rank{rank}.json"
            trace = written(name, steps=2, rank=rank, layers=2 + rank)
            Exporter(fleet, run, WITHOUT).add(trace)

    assert {(row["run"], row["rank"]) for row in rows(fleet, "op")} == {
        ("a", 0), ("a", 1), ("b", 0), ("b", 1),
    }  # fmt: skip
    assert [(each.run, each.rank) for each in manifests(fleet)] == [
        ("a", 0), ("a", 1), ("b", 0), ("b", 1),
    ]  # fmt: skip
    lines = [{row["line_hash"] for row in rows(fleet, "line") if row["rank"] == n} for n in (0, 1)]
    assert lines[0] == lines[1]


@pytest.mark.parametrize(
    "name",
    [
        *("../x", "a/b", "a\\b", "a=b", "a'b", 'a"b', "", " ", ".", "..", "_x", "-x", "é"),
        *("x" * 101, "null", "NULL", "a\nb", "a\0b", "a%2Fb", "x."),
    ],
)
def test_names_that_could_not_be_folders_everywhere_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a run"):
        Exporter(tmp_path / "fleet", name, WITHOUT)
    assert not (tmp_path / "fleet").exists()


@pytest.mark.parametrize("name", ["lr3e-4", "2026-11-30", "007", "a.b_c+d", "x" * 100])
def test_ordinary_names_are_kept(name: str, tmp_path: Path) -> None:
    Exporter(tmp_path / "fleet", name, WITHOUT).add(written(tmp_path / "t.json", steps=1))

    assert {row["run"] for row in rows(tmp_path / "fleet", "node")} == {name}


def test_damaged_and_merged_traces_are_refused(tmp_path: Path) -> None:
    fleet, trace = tmp_path / "fleet", written(tmp_path / "trace.json", steps=3)
    whole = trace.read_bytes()
    at = whole.index(b'"table":"node"')
    trace.write_bytes(whole[:at] + b"X" + whole[at + 1 :])
    with pytest.raises(UnreadableTraceError, match="is damaged"):
        Exporter(fleet, "a", WITHOUT).add(trace)
    with pytest.raises(UnreadableTraceError, match="No such file"):
        Exporter(fleet, "a", WITHOUT).add(tmp_path / "none.json")

    save(several_ranks(), tmp_path / "all.json")
    with pytest.raises(UsageError, match="holds several ranks"):
        Exporter(fleet, "a", WITHOUT).add(tmp_path / "all.json")

    assert not list(fleet.rglob("*.parquet"))


def test_steps_that_a_recording_let_go_stay(tmp_path: Path) -> None:
    facts = {"let_go": {"keep": 2, "steps": 0}}
    whole = written(tmp_path / "whole.json", steps=7, **facts).read_bytes()
    trace, fleet = tmp_path / "trace.json", tmp_path / "fleet"
    trace.write_bytes(whole[: windows(whole)[3]])
    Exporter(fleet, "a", WITHOUT).add(trace)
    before = rows(fleet, "event")

    trace.write_bytes(without(whole, {3, 4}))
    assert len({row.step for row in load(trace).rows(GraphTask)}) == 5
    Exporter(fleet, "a", WITHOUT).add(trace)

    assert {row["step"] for row in before} == {0, 1, 2}
    assert [row for row in rows(fleet, "event") if row["step"] in {0, 1, 2}] == before
    assert {row["step"] for row in rows(fleet, "event")} == set(range(7))
    known = {row["line_hash"] for row in rows(fleet, "line")}
    assert {row["line_hash"] for row in rows(fleet, "op")} <= known


def test_files_that_were_removed_are_written_again(tmp_path: Path) -> None:
    trace, fleet = written(tmp_path / "trace.json", steps=2), tmp_path / "fleet"
    Exporter(fleet, "a", WITHOUT).add(trace)
    before = files(fleet)
    (fleet / "op" / "run=a" / "rank=0" / "part-00000000.parquet").unlink()

    Exporter(fleet, "a", WITHOUT).add(trace)

    assert files(fleet) == before


def test_a_commit_is_kept_until_another_is_given(tmp_path: Path) -> None:
    trace, fleet = written(tmp_path / "trace.json", steps=2), tmp_path / "fleet"

    Exporter(fleet, "a", ExportOptions(commit="abc", findings=False)).add(trace)
    assert Exporter(fleet, "a", WITHOUT).add(trace).bytes == 0
    assert [row["commit"] for row in rows(fleet, "meta")] == ["abc"]

    Exporter(fleet, "a", ExportOptions(commit="def", findings=False)).add(trace)
    assert [row["commit"] for row in rows(fleet, "meta")] == ["def"]


def test_blocks_of_steps_have_files_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = written(tmp_path / "trace.json", steps=7)
    Exporter(tmp_path / "one", "a", WITHOUT).add(trace)

    monkeypatch.setattr("gradscope.fleet.export.blocks.MOST_ROWS", 200)
    Exporter(tmp_path / "many", "a", WITHOUT).add(trace)

    assert everything(tmp_path / "many") == everything(tmp_path / "one")
    paths = sorted((tmp_path / "many" / "event" / "run=a" / "rank=0").glob("part-0*"))
    assert len(paths) > 2
    assert load(trace).event_count == len(rows(tmp_path / "many", "event"))
