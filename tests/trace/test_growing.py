"""A trace file that is read while it grows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gradscope.errors import UnreadableTraceError
from gradscope.trace.file.file_writer import FileWriter
from gradscope.trace.file.reading.growing import GrowingTrace
from gradscope.trace.load_save import load
from gradscope.trace.schema import Step

ENDINGS = ("json", "json.gz", "json.zst")


def written(writer: FileWriter, *steps: int) -> None:
    for number in steps:
        begin = 100 * number
        writer.block(
            Step, {"id": [number], "number": [number], "begin": [begin], "end": [begin + 9]}
        )
    writer.commit()
    writer.settle()


def seen(growing: GrowingTrace) -> list[int]:
    """The ids of the steps in the windows of one look."""
    windows = [*growing.look()]
    blocks = [block for window in windows for block in window if block.table == Step.TABLE]
    return [int(id) for block in blocks for id in block.data["id"]]  # type: ignore[union-attr]


@pytest.fixture(params=ENDINGS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param.endswith("zst"):
        pytest.importorskip("zstandard")
    return tmp_path / f"trace.{request.param}"


def test_each_look_returns_what_was_added_since_the_last(path: Path) -> None:
    writer = FileWriter(path)
    growing = GrowingTrace(path)

    assert seen(growing) == []
    written(writer, 0, 1)
    assert seen(growing) == [0, 1]
    assert seen(growing) == []
    written(writer, 2)
    written(writer, 3)
    assert seen(growing) == [2, 3]
    assert not growing.has_ended
    writer.close()
    assert seen(growing) == []
    assert growing.has_ended
    assert not growing.again


def test_a_look_reads_only_the_end_of_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = FileWriter(path)
    growing = GrowingTrace(path)
    written(writer, *range(200))
    assert len(seen(growing)) == 200
    lines: list[int] = []
    real = growing._lines
    monkeypatch.setattr(
        growing, "_lines", lambda file: (lines.append(1) or each for each in real(file))
    )

    written(writer, 200)

    assert seen(growing) == [200]
    assert len(lines) <= 4
    writer.close()


def test_a_window_that_is_half_written_is_returned_when_it_is_whole(path: Path) -> None:
    writer = FileWriter(path)
    written(writer, 0)
    written(writer, 1)
    writer.close()
    whole = path.read_bytes()
    for cut in range(1, len(whole)):
        growing = GrowingTrace(path)
        path.write_bytes(whole[:cut])
        first = seen(growing)
        with path.open("ab") as file:
            file.write(whole[cut:])
        assert first + seen(growing) == [0, 1], cut
        assert growing.has_ended


def test_rows_that_replace_the_end_line_are_read(path: Path) -> None:
    writer = FileWriter(path)
    growing = GrowingTrace(path)
    written(writer, 0)
    writer.seal()
    assert seen(growing) == [0]
    assert growing.has_ended
    writer.unseal()
    written(writer, 1)

    assert seen(growing) == [1]
    assert not growing.has_ended
    writer.close()


def test_a_file_that_was_replaced_is_read_from_its_beginning(path: Path) -> None:
    writer = FileWriter(path)
    written(writer, 0, 1, 2)
    growing = GrowingTrace(path)
    assert seen(growing) == [0, 1, 2]
    writer.close()
    path.unlink()
    other = FileWriter(path)
    written(other, 7)

    assert seen(growing) == [7]
    assert growing.again
    other.close()


def test_all_windows_together_are_the_rows_of_the_trace(path: Path) -> None:
    writer = FileWriter(path)
    growing, found = GrowingTrace(path), Counter[str]()
    for number in range(5):
        written(writer, number)
        found.update(block.table for window in growing.look() for block in window)
    writer.close()

    assert found[Step.TABLE] == len(load(path).table(Step)) == 5


def test_other_files_are_no_traces(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"a": 1}\n')
    with pytest.raises(UnreadableTraceError, match="not a gradscope trace"):
        _ = [*GrowingTrace(other).look()]
    with pytest.raises(UnreadableTraceError, match="cannot open"):
        _ = [*GrowingTrace(tmp_path / "none.json").look()]
