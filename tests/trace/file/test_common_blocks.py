"""What several files have in common is decoded once, and each trace is what it is alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradscope.errors import UnreadableTraceError
from gradscope.trace.file import scan
from gradscope.trace.file.scan import CommonBlocks
from gradscope.trace.load_save import encode, load, save
from gradscope.trace.schema import Node
from gradscope.trace.trace import Trace
from tests.shared.example_traces import mean_of_squares, nan_in_backward, two_layers


def files(folder: Path) -> list[Path]:
    traces = [two_layers(2), two_layers(2), two_layers(3), mean_of_squares(), nan_in_backward()]
    paths = [folder / f"{number}.json" for number in range(len(traces))]
    for path, trace in zip(paths, traces, strict=True):
        save(trace, path)
    return paths


def together(paths: list[Path]) -> list[Trace]:
    common = CommonBlocks()
    return [load(path, common=common) for path in paths]


@pytest.mark.parametrize("room", [scan.ROOM, 1_000, 0])
def test_traces_are_the_same_as_alone(
    room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "ROOM", room)
    paths = files(tmp_path)

    for path, trace in zip(paths, together(paths), strict=True):
        alone = load(path)
        assert trace == alone
        assert encode(trace) == encode(alone)
        assert (trace.truncated, trace.horizon, trace.lost) == (
            alone.truncated, alone.horizon, alone.lost,
        )  # fmt: skip


def test_equal_blocks_share_their_columns_which_cannot_be_written(tmp_path: Path) -> None:
    first, second, *_ = together(files(tmp_path))

    one, two = (trace.table(Node).data["id"] for trace in (first, second))
    assert one is two
    with pytest.raises(ValueError, match="read-only"):
        first.table(Node)["id"][:1] = 7


def test_a_damaged_line_is_found_though_others_were_read_before(tmp_path: Path) -> None:
    paths = files(tmp_path)
    text = paths[1].read_bytes()
    place = text.index(b'"table":"node"')
    paths[1].write_bytes(text[: place + 20] + b"9" + text[place + 21 :])

    with pytest.raises(UnreadableTraceError):
        together(paths)


def test_a_cut_off_file_is_cut_off_though_its_lines_are_known(tmp_path: Path) -> None:
    paths = files(tmp_path)
    text = paths[1].read_bytes()
    paths[1].write_bytes(text[: len(text) // 2])

    _, cut, *_ = together(paths)

    assert cut == load(paths[1])
    assert cut.truncated
