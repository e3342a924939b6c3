"""One writer for each file, and nobody else who may read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradscope.trace.file.opening import numbered
from gradscope.trace.load_save import load
from gradscope.trace.writer import FileWriter


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz", "trace"])
def test_two_recordings_into_one_file_leave_two_traces(tmp_path: Path, name: str) -> None:
    first, second = FileWriter(tmp_path / name), FileWriter(tmp_path / name)
    first.close()
    second.close()

    assert [first.path, second.path] == [tmp_path / name, numbered(tmp_path / name, 2)]
    assert [load(each.path).truncated for each in (first, second)] == [False, False]


def test_a_file_whose_writer_has_ended_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    FileWriter(path).close()
    again = FileWriter(path)
    again.close()

    assert again.path == path


def test_only_its_owner_reads_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.touch(0o644)
    FileWriter(path).close()

    assert path.stat().st_mode & 0o777 == 0o600
